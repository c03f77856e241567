// Shows the OpenAPI document with Swagger UI, in the colour scheme of the page.
(() => {
  "use strict";
  const place = document.getElementById("reference");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", followScheme);
  followScheme();
  SwaggerUIBundle({
    url: place.dataset.openapi,
    domNode: place,
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: -1,
    syntaxHighlight: false, // its colours have too little contrast
    validatorUrl: null, // no request to another host
    plugins: [
      ({ React }) => ({
        wrapComponents: {
          InfoContainer: () => () => null, // the page has its own title and introduction
          DeepLink: () => ({ text }) => React.createElement("span", null, text), // no link inside a button
        },
      }),
    ],
  });
})();
