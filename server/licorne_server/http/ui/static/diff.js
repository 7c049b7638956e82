// The difference between two texts, line by line.

// So many lines may be different before the texts count as different altogether.
const MAX_DIFFERENT = 3000;

/** Lines as { kind, text, before, after }: kind is "same", "gone" or "new", with the line numbers. */
export function diff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const middle = compare(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  const lines = [...a.slice(0, head).map((text) => ["same", text]), ...middle, ...a.slice(a.length - tail).map((text) => ["same", text])];
  const at = { before: 0, after: 0 };
  return lines.map(([kind, text]) => {
    if (kind !== "new") at.before += 1;
    if (kind !== "gone") at.after += 1;
    return { kind, text, before: kind === "new" ? null : at.before, after: kind === "gone" ? null : at.after };
  });
}

/** The longest common lines of what is not alike at both ends. */
function compare(a, b) {
  const all = () => [...a.map((text) => ["gone", text]), ...b.map((text) => ["new", text])];
  if (!a.length || !b.length || a.length * b.length > MAX_DIFFERENT ** 2) return all();
  // How many lines are alike from each pair of places on.
  const width = b.length + 1;
  const alike = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      alike[i * width + j] = a[i] === b[j] ? alike[(i + 1) * width + j + 1] + 1 : Math.max(alike[(i + 1) * width + j], alike[i * width + j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push(["same", a[i]]);
      i += 1;
      j += 1;
    } else if (alike[(i + 1) * width + j] >= alike[i * width + j + 1]) lines.push(["gone", a[i++]]);
    else lines.push(["new", b[j++]]);
  }
  return [...lines, ...a.slice(i).map((text) => ["gone", text]), ...b.slice(j).map((text) => ["new", text])];
}

/** Only the lines near differences; null stands for lines that are left out. */
export function near(lines, context = 3) {
  const kept = new Set();
  lines.forEach(({ kind }, at) => {
    if (kind !== "same") for (let place = at - context; place <= at + context; place += 1) kept.add(place);
  });
  const found = [];
  lines.forEach((line, at) => {
    if (kept.has(at)) found.push(line);
    else if (found.at(-1) !== null) found.push(null);
  });
  return found;
}
