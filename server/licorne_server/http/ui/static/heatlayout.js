// Where the squares of the picture of nodes are: in one block, or in a block for each group.

const GAP = 1;
const LARGEST = 34;
const SMALLEST = 6;
const HEAD = 20;
const BETWEEN = 18;
// Least width of a block: its name stands above it.
const NARROWEST = 84;

/** The order of nodes: by their use, the fullest first, or as they come, by id; within groups by name. */
export function ordered(nodes, { place, group, groups, byFill }) {
  const of = (node) => node[place] ?? -1;
  const all = byFill ? [...nodes].sort((a, b) => of(b) - of(a) || (a[0] < b[0] ? -1 : 1)) : [...nodes];
  if (group === null) return all;
  const ranks = groups.map((name, at) => [name, at]).sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  const rank = new Map(ranks.map(([, at], own) => [at, own]));
  return all.sort((a, b) => rank.get(a[group]) - rank.get(b[group]));
}

/** Squares and headings of nodes that are in order: { side, height, cells: [[x, y]], heads: [{ x, y, at, count }] }. */
export function laidOut(nodes, group, width) {
  const room = width * (group === null ? 360 : 240);
  const side = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.sqrt(room / Math.max(1, nodes.length)))));
  const most = Math.max(1, Math.floor(width / side));
  const cells = [];
  if (group === null) {
    nodes.forEach((_, at) => cells.push([(at % most) * side, Math.floor(at / most) * side]));
    return { side, size: side - GAP, cells, heads: [], height: Math.max(1, Math.ceil(nodes.length / most)) * side };
  }
  const heads = [];
  let [x, y, tallest] = [0, 0, 0];
  for (const [from, count] of blocks(nodes, group)) {
    const columns = Math.min(most, Math.max(Math.ceil(NARROWEST / side), Math.ceil(Math.sqrt(count * 1.8))));
    const [wide, high] = [columns * side, HEAD + Math.ceil(count / columns) * side];
    if (x > 0 && x + wide > width) [x, y, tallest] = [0, y + tallest + BETWEEN, 0];
    heads.push({ x, y: y + HEAD - 7, at: from, count, width: wide });
    for (let own = 0; own < count; own += 1) cells.push([x + (own % columns) * side, y + HEAD + Math.floor(own / columns) * side]);
    x += wide + BETWEEN;
    tallest = Math.max(tallest, high);
  }
  return { side, size: side - GAP, cells, heads, height: Math.max(1, y + tallest) };
}

/** Runs of nodes of the same group, as [from, count]. */
function blocks(nodes, group) {
  const found = [];
  nodes.forEach((node, at) => {
    if (at && nodes[at - 1][group] === node[group]) found.at(-1)[1] += 1;
    else found.push([at, 1]);
  });
  return found;
}

/** The square at a point; -1 for none. */
export function cellAt({ cells, side }, x, y) {
  return cells.findIndex(([left, top]) => x >= left && x < left + side && y >= top && y < top + side);
}

/** The square above or below one: the nearest in the next row that has any. */
export function beside({ cells, side }, at, down) {
  const [x, y] = cells[at];
  let [best, distance] = [at, Infinity];
  cells.forEach(([left, top], own) => {
    const way = down ? top - y : y - top;
    if (way < side / 2) return;
    const far = way * 1000 + Math.abs(left - x);
    if (far < distance) [best, distance] = [own, far];
  });
  return best;
}
