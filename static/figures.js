// Draws the figures of a dashboard with plotly in the colours of the style sheet, and again when the page is updated,
// turns dark or is printed. A click on a point follows its link. Figures are saved in light colours and in the size of a
// printed page: SVG, PNG with 300 dots per inch, and PDF by the browser's own print dialog.
(() => {
  "use strict";
  const LANGUAGE = document.documentElement.lang || "en";
  const PRINT = window.matchMedia("print");
  const NARROW = window.matchMedia("(max-width: 40rem)");
  const PRINT_WIDTH = 680; // of an A4 page, which cannot be measured before printing
  const PRINT_SCALE = 300 / 96; // dots per CSS pixel at 300 dots per inch

  // A plotly locale for the language of the page, from the browser's number and date formats.
  const part = (format, value, type) => format.formatToParts(value).find((found) => found.type === type)?.value ?? "";
  const dateFormat = (options) => new Intl.DateTimeFormat(LANGUAGE, { timeZone: "UTC", ...options });
  const DATE_PARTS = { day: "%-d", month: "%b", year: "%Y" };
  const pattern = (options) => dateFormat(options).formatToParts(0).map(({ type, value }) => DATE_PARTS[type] ?? value).join("");

  const localeFormat = () => {
    const decimals = new Intl.NumberFormat(LANGUAGE);
    const months = [...Array(12).keys()].map((month) => Date.UTC(2026, month, 15));
    const days = [...Array(7).keys()].map((day) => Date.UTC(2026, 1, 1 + day)); // the first of February is a Sunday
    const dayMonth = { day: "numeric", month: "short" };
    return {
      decimal: part(decimals, 1234567.8, "decimal"),
      thousands: part(decimals, 1234567.8, "group"),
      months: months.map((at) => dateFormat({ month: "long" }).format(at)),
      shortMonths: months.map((at) => part(dateFormat(dayMonth), at, "month")),
      days: days.map((at) => dateFormat({ weekday: "long" }).format(at)),
      shortDays: days.map((at) => dateFormat({ weekday: "short" }).format(at)),
      month: pattern({ month: "short", year: "numeric" }),
      dayMonth: pattern(dayMonth),
      dayMonthYear: pattern({ ...dayMonth, year: "numeric" }),
    };
  };

  const OPTIONS = {
    displayModeBar: false,
    responsive: true,
    locale: LANGUAGE,
    locales: { [LANGUAGE]: { dictionary: {}, format: localeFormat() } },
  };

  const style = () => getComputedStyle(document.documentElement);
  const rules = () => [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const light = () => rules().find((rule) => rule.selectorText === ":root").style;

  // Replace the names of CSS properties by their values. Item texts may start with -- too and are kept.
  const withColours = (value, colours) => {
    if (typeof value === "string") return value.startsWith("--") ? colours.getPropertyValue(value).trim() || value : value;
    if (Array.isArray(value)) return value.map((part) => withColours(part, colours));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, withColours(part, colours)]));
  };

  const AXIS = { gridcolor: "--line", zerolinecolor: "--edge", linecolor: "--line", automargin: true };
  const LAYOUT = {
    paper_bgcolor: "--surface",
    plot_bgcolor: "--surface",
    colorway: ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"],
    font: { color: "--ink", size: 13 },
    hoverlabel: { bgcolor: "--surface", bordercolor: "--edge", font: { color: "--ink" }, align: "left" },
    margin: { t: 16, r: 16, b: 48, l: 56 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", font: { size: 11 } },
    hovermode: "closest",
    dragmode: false,
  };

  const layoutOf = (name, layout) => {
    const whole = { ...LAYOUT, ...layout, uirevision: name, ...(PRINT.matches ? { width: PRINT_WIDTH } : {}) };
    for (const key of ["xaxis", "yaxis", "xaxis2", "yaxis2"]) {
      if (key in layout || !key.endsWith("2")) whole[key] = { ...AXIS, ...layout[key] };
    }
    // The title of a component's axis names both ends, in parts separated by three spaces: too long for a phone.
    const title = whole.xaxis.title?.text;
    if (title && NARROW.matches) whole.xaxis.title = { ...whole.xaxis.title, text: title.replaceAll("   ", "<br>") };
    whole.font = { ...whole.font, family: getComputedStyle(document.body).fontFamily };
    return whole;
  };

  // The arguments of Plotly.react, in these colours.
  const plotlyFigure = (name, colours) => {
    const { data, layout } = JSON.parse(document.getElementById(`figure-${name}`).textContent);
    return { data: withColours(data, colours), layout: withColours(layoutOf(name, layout), colours), config: OPTIONS };
  };

  const draw = (figure) => {
    const name = figure.dataset.figure;
    const canvas = document.getElementById(`canvas-${name}`);
    const { data, layout, config } = plotlyFigure(name, style());
    const title = figure.querySelector("figcaption span").textContent.trim();
    const drawn = Boolean(canvas.data);
    canvas.style.height = `${layout.height}px`; // plotly resets it when the window is resized
    window.Plotly.react(canvas, data, layout, config);
    if (!drawn) canvas.on("plotly_click", (event) => follow(event.points[0].customdata));
    for (const button of figure.querySelectorAll("[data-format]")) {
      button.hidden = false;
      button.setAttribute("aria-label", `${button.textContent}: ${title}`);
    }
  };

  const follow = (address) => {
    if (typeof address === "string" && address.startsWith("/") && !address.startsWith("//")) window.location = address;
  };

  const save = (button) => {
    const element = button.closest("[data-figure]");
    const { figure: name, file } = element.dataset;
    const figure = plotlyFigure(name, light());
    const { height } = figure.layout;
    const { format } = button.dataset;
    if (format === "pdf") return printFigure(element, height, file);
    const scale = format === "png" ? PRINT_SCALE : 1;
    return window.Plotly.downloadImage(figure, { format, filename: file, width: PRINT_WIDTH, height, scale });
  };

  // Print one figure alone, on a page of its own size: browsers save it as a PDF with lines and text.
  const printFigure = (element, height, file) => {
    const root = document.documentElement;
    const { title } = document;
    const page = new CSSStyleSheet();
    page.replaceSync(`@page { size: ${PRINT_WIDTH}px ${height}px; margin: 0; }`);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, page];
    root.classList.add("one-figure");
    element.classList.add("printed");
    document.title = file; // the name that browsers suggest
    const restore = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== page);
      root.classList.remove("one-figure");
      element.classList.remove("printed");
      document.title = title;
    };
    window.addEventListener("afterprint", restore, { once: true });
    window.print();
  };

  const drawAll = () => document.querySelectorAll("[data-figure]").forEach(draw);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-format]");
    if (button) save(button);
  });
  document.addEventListener("live:replaced", drawAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  PRINT.addEventListener("change", drawAll);
  drawAll();
})();
