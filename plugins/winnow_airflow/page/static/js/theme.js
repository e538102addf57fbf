// The theme follows Airflow's setting: "light", "dark" or "system" under "theme" in the local storage of this origin.

const KEY = "theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function readTheme() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** Returns the current theme: "light" or "dark". */
export function getTheme() {
  return document.documentElement.dataset.theme;
}

function applyTheme() {
  const wanted = readTheme();
  const theme = wanted === "light" || wanted === "dark" ? wanted : system.matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
}

/** Follows changes of Airflow's setting and of the system while the page is open. */
export function watchTheme() {
  applyTheme();
  system.addEventListener("change", applyTheme);
  window.addEventListener("storage", (event) => {
    if (event.key === KEY || event.key === null) applyTheme();
  });
}

/** Switches between light and dark, in Airflow's UI too, because both share one setting. */
export function toggleTheme() {
  const theme = getTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
}
