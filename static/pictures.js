// Draws the figures of a dashboard with plotly: colours by name from the style sheet, again when the page is refreshed
// live, turns dark, or is printed. A click on a point follows its link; each picture can be saved as SVG or PNG, always
// in light colours: a file goes into a paper.
(() => {
  "use strict";
  const LANGUAGE = document.documentElement.lang || "en";
  const PAPER = window.matchMedia("print");
  const PAPER_WIDTH = 680; // of a column on A4; a sheet of paper is not measured before it is printed

  // Numbers and dates as the browser writes them in the language of the page, in the words plotly has for a locale.
  const part = (format, value, type) => format.formatToParts(value).find((found) => found.type === type)?.value ?? "";
  const dated = (options) => new Intl.DateTimeFormat(LANGUAGE, { timeZone: "UTC", ...options });
  const PLACES = { day: "%-d", month: "%b", year: "%Y" };
  const pattern = (options) => dated(options).formatToParts(0).map(({ type, value }) => PLACES[type] ?? value).join("");

  const written = () => {
    const decimals = new Intl.NumberFormat(LANGUAGE);
    const months = [...Array(12).keys()].map((month) => Date.UTC(2026, month, 15));
    const days = [...Array(7).keys()].map((day) => Date.UTC(2026, 1, 1 + day)); // the first of February is a Sunday
    const dayMonth = { day: "numeric", month: "short" };
    return {
      decimal: part(decimals, 1234567.8, "decimal"),
      thousands: part(decimals, 1234567.8, "group"),
      months: months.map((at) => dated({ month: "long" }).format(at)),
      shortMonths: months.map((at) => part(dated(dayMonth), at, "month")),
      days: days.map((at) => dated({ weekday: "long" }).format(at)),
      shortDays: days.map((at) => dated({ weekday: "short" }).format(at)),
      month: pattern({ month: "short", year: "numeric" }),
      dayMonth: pattern(dayMonth),
      dayMonthYear: pattern({ ...dayMonth, year: "numeric" }),
    };
  };

  const OPTIONS = {
    displayModeBar: false,
    responsive: true,
    locale: LANGUAGE,
    locales: { [LANGUAGE]: { dictionary: {}, format: written() } },
  };

  const style = () => getComputedStyle(document.documentElement);
  const rules = () => [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const light = () => rules().find((rule) => rule.selectorText === ":root").style;

  // Every string that names a property of the style sheet becomes its value. Texts are anybody's, and may begin so, too.
  const coloured = (value, colours) => {
    if (typeof value === "string") return value.startsWith("--") ? colours.getPropertyValue(value).trim() || value : value;
    if (Array.isArray(value)) return value.map((part) => coloured(part, colours));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, coloured(part, colours)]));
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
    const whole = { ...LAYOUT, ...layout, uirevision: name, ...(PAPER.matches ? { width: PAPER_WIDTH } : {}) };
    for (const key of ["xaxis", "yaxis", "xaxis2", "yaxis2"]) {
      if (key in layout || !key.endsWith("2")) whole[key] = { ...AXIS, ...layout[key] };
    }
    whole.font = { ...whole.font, family: getComputedStyle(document.body).fontFamily };
    return whole;
  };

  // The figure of a picture as plotly takes it, in these colours.
  const figureOf = (name, colours) => {
    const { data, layout } = JSON.parse(document.getElementById(`figure-${name}`).textContent);
    return { data: coloured(data, colours), layout: coloured(layoutOf(name, layout), colours), config: OPTIONS };
  };

  const draw = (picture) => {
    const name = picture.dataset.picture;
    const canvas = document.getElementById(`canvas-${name}`);
    const { data, layout, config } = figureOf(name, style());
    const title = picture.querySelector("figcaption span").textContent.trim();
    const drawn = Boolean(canvas.data);
    canvas.style.height = `${layout.height}px`; // plotly forgets it when the window changes
    window.Plotly.react(canvas, data, layout, config);
    if (!drawn) canvas.on("plotly_click", (event) => follow(event.points[0].customdata));
    for (const button of picture.querySelectorAll("[data-format]")) {
      button.hidden = false;
      button.setAttribute("aria-label", `${button.textContent}: ${title}`);
    }
  };

  const follow = (address) => {
    if (typeof address === "string" && address.startsWith("/") && !address.startsWith("//")) window.location = address;
  };

  const save = (button) => {
    const { picture: name, file } = button.closest("[data-picture]").dataset;
    const width = document.getElementById(`canvas-${name}`).offsetWidth;
    const figure = figureOf(name, light());
    const size = { width, height: figure.layout.height, scale: 2 };
    window.Plotly.downloadImage(figure, { format: button.dataset.format, filename: file, ...size });
  };

  const drawAll = () => document.querySelectorAll("[data-picture]").forEach(draw);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-format]");
    if (button) save(button);
  });
  document.addEventListener("live:replaced", drawAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  PAPER.addEventListener("change", drawAll);
  drawAll();
})();
