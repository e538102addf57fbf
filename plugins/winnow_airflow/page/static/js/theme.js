// The theme follows Airflow's: the UI keeps "light", "dark" or "system" under "theme" in the local storage of this origin.

const KEY = "theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function readTheme() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** The theme in force: "light" or "dark". */
export function getTheme() {
  return document.documentElement.dataset.theme;
}

function applyTheme() {
  const wanted = readTheme();
  const theme = wanted === "light" || wanted === "dark" ? wanted : system.matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
}

/** Follow Airflow and the system for as long as the page is open. */
export function watchTheme() {
  applyTheme();
  system.addEventListener("change", applyTheme);
  window.addEventListener("storage", (event) => {
    if (event.key === KEY || event.key === null) applyTheme();
  });
}

/** Turn the theme over, for Airflow's UI as well: it is one setting. */
export function toggleTheme() {
  const theme = getTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Without storage the choice lasts until the page is left.
  }
}
