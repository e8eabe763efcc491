// The theme that a person chose, set before anything is drawn: as the system, light or dark.
"use strict";
try {
  const chosen = localStorage.getItem("somdst-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden: then the system decides.
}
