// The colours asked for last time, before anything is painted.
{
  let theme = null;
  try {
    theme = localStorage.getItem("tamis.theme");
  } catch {
    // a browser that keeps nothing: as the system says
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
