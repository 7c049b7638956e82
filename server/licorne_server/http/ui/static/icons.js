// Icons: strokes on a field of 24 × 24, drawn for this page. `icon(name)` makes one; it says nothing to
// a screen reader, so a control that has no other text needs an `aria-label`.

import { svg } from "./dom.js";

const PATHS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM14 4v3h6V4zM4 20h6v-3H4z",
  applications: "M12 3l8.5 4.7L12 12.4 3.5 7.7zM3.5 12.2L12 17l8.5-4.8M3.5 16.4L12 21l8.5-4.6",
  nodes: "M4 4h16v6H4zM4 14h16v6H4zM7.5 7h.01M7.5 17h.01M12 7h5M12 17h5",
  users: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M2.5 20c.4-3.7 3-5.7 6.5-5.7s6.1 2 6.5 5.700M16 4.400a3.5 3.5 0 0 1 0 6.300M18.5 14.900c1.7.8 2.7 2.5 3 5.1",
  preemptions: "M4 8h13M13 4l4 4-4 4M20 16H7M11 12l-4 4 4 4",
  calendar: "M4 6h16v14H4zM4 10.500h16M8.5 3.500v4M15.5 3.500v4M8 14.500h3M13 17h3",
  events: "M3 12h4l2.5-7 5 14 2.5-7h4",
  configuration: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.700v4.600M9 14.700v4.6",
  rms: "M8 3v5M16 3v5M5.5 8h13v3a6.5 6.5 0 0 1-13 0zM12 17.500V21",
  queue: "M4 5h16M4 12h10M4 19h6",
  group: "M12 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6M5 20c.5-4 3.3-6 7-6s6.5 2 7 6",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13M20 20l-4.8-4.8",
  keys: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
  auto: "M4 5h16v11H4zM9 20h6M12 16v4",
  light: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8M12 2.500v2M12 19.500v2M2.5 12h2M19.5 12h2M5.3 5.300l1.4 1.400M17.3 17.300l1.4 1.400M5.3 18.700l1.4-1.400M17.3 6.700l1.4-1.4",
  dark: "M20 14.500A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.500z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  done: "M5 12.500l4.5 4.500L19 7.5",
  down: "M6 9.500l6 6 6-6",
  close: "M6 6l12 12M18 6L6 18",
  stop: "M6 6h12v12H6z",
  start: "M7 4.500v15l12-7.500z",
  hold: "M8 5v14M16 5v14",
  drain: "M12 3v12M7 10.500l5 5 5-5M4 20h16",
  waits: "M6 3h12M6 21h12M7 3c0 5 5 5.5 5 9s-5 4-5 9M17 3c0 5-5 5.5-5 9s5 4 5 9",
  attention: "M12 4.5L21 20H3zM12 10.5v4M12 17.2h.01",
  gauge: "M4 18a8.5 8.5 0 1 1 16 0M12 15l4-5",
  chart: "M4 4v16h16M7 15l4-5 3 3 5-7",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M12 7v5l3.5 2",
};

/** A mark of this name. */
export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}
