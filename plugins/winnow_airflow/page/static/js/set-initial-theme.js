// Sets the theme before the first paint: Airflow's setting ("theme" in its local storage), else the system's.
(() => {
  let wanted = null;
  try {
    wanted = localStorage.getItem("theme");
  } catch {
    // Storage may be forbidden; then the system's theme is used.
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = wanted === "light" || wanted === "dark" ? wanted : dark ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
  document.documentElement.dataset.framed = String(window.parent !== window);
})();
