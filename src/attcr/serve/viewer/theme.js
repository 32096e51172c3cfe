// Dark and light: as the system says, until the button says otherwise.

const STORED = "attcr-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");

function stored() {
  try {
    return localStorage.getItem(STORED);
  } catch {
    return null; // storage may be forbidden, and the page works without it
  }
}

function show(theme) {
  document.documentElement.dataset.theme = theme;
  button.setAttribute("aria-pressed", String(theme === "dark"));
  document.dispatchEvent(new CustomEvent("theme", { detail: theme }));
}

const current = () => stored() ?? (system.matches ? "dark" : "light");

button.addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(STORED, theme);
  } catch {
    // forgotten with the page
  }
  show(theme);
});
system.addEventListener("change", () => show(current()));
show(current());
