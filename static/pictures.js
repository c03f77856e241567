// Draws the figures of a dashboard with plotly: colours by name from the style sheet, again when the page is refreshed
// live, turns dark, or is printed. A click on a point follows its link; each picture can be saved as SVG or PNG, always
// in light colours: a file goes into a paper.
(() => {
  "use strict";
  const OPTIONS = { displayModeBar: false, responsive: true };
  const PAPER = window.matchMedia("print");
  const PAPER_WIDTH = 680; // of a column on A4; a sheet of paper is not measured before it is printed

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
    return { data: coloured(data, colours), layout: coloured(layoutOf(name, layout), colours) };
  };

  const draw = (picture) => {
    const name = picture.dataset.picture;
    const canvas = document.getElementById(`canvas-${name}`);
    const { data, layout } = figureOf(name, style());
    const drawn = Boolean(canvas.data);
    canvas.style.height = `${layout.height}px`; // plotly forgets it when the window changes
    window.Plotly.react(canvas, data, layout, OPTIONS);
    if (!drawn) canvas.on("plotly_click", (event) => follow(event.points[0].customdata));
    for (const button of picture.querySelectorAll("[data-format]")) {
      button.hidden = false;
      button.setAttribute("aria-label", `${button.textContent}: ${name}`);
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
