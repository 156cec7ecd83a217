"use strict";
(() => {
  const { rows, axes, told } = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const map = at("map");
  if (!map) return;
  map.hidden = false;
  const COLORS = ["#b3261e", "#2f5fb3", "#1b8a4b", "#b26a00", "#7b3f9e", "#0f7c8a", "#8a5a44", "#777777"];
  const MARKS = ["M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", "M-4.5,-4.5h9v9h-9z", "M0,-5.5L5.5,4.5H-5.5z", "M0,-6L6,0L0,6L-6,0z"];
  const HEIGHT = 440, LEFT = 60, RIGHT = 20, TOP = 14, BOTTOM = 46;
  const stages = [...new Set(rows.map((row) => row.stage))];
  const off = new Set();

  const make = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const option = (select, value, text) => {
    const made = document.createElement("option");
    made.value = value; made.textContent = text; select.append(made);
  };
  const large = (value) => {
    for (const [size, letter] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]]) if (value >= size) return +(value / size).toPrecision(3) + letter;
    return String(+value.toPrecision(3));
  };

  const across = axes.filter((axis) => axis.across), up = axes.filter((axis) => !axis.across);
  for (const axis of across) option(at("x"), axis.column, axis.label);
  for (const axis of up) option(at("y"), axis.column, axis.label);
  option(at("family"), "", "all");
  for (const name of [...new Set(rows.map((row) => row.family))].sort()) option(at("family"), name, name);
  const sizes = [...new Set(rows.map((row) => row.size).filter((size) => size !== null))].sort((a, b) => a - b);
  for (const [id, text] of [["from", "smallest"], ["to", "largest"]]) {
    option(at(id), "", text);
    for (const size of sizes) option(at(id), String(size), large(size));
    at(id).parentElement.hidden = sizes.length < 2;
  }
  at("family").parentElement.hidden = at("family").options.length < 3;
  at("x").parentElement.hidden = across.length < 2;

  const color = (stage) => COLORS[stages.indexOf(stage) % COLORS.length];
  const mark = (stage) => MARKS[stages.indexOf(stage) % MARKS.length];
  for (const stage of stages) {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.setAttribute("aria-pressed", "true");
    const sign = make("svg", { viewBox: "-8 -8 16 16", width: 14, height: 14, "aria-hidden": "true" });
    sign.append(make("path", { d: mark(stage), fill: color(stage) }));
    chip.append(sign, ` ${stage}`);
    chip.addEventListener("click", () => {
      if (!off.delete(stage)) off.add(stage);
      chip.setAttribute("aria-pressed", String(!off.has(stage)));
      draw();
    });
    at("stages").append(chip);
  }

  const isShown = (row) => {
    const [family, from, to] = ["family", "from", "to"].map((id) => at(id).value);
    const isSized = (from === "" || (row.size !== null && row.size >= +from)) && (to === "" || (row.size !== null && row.size <= +to));
    return !off.has(row.stage) && (family === "" || row.family === family) && isSized;
  };
  const ticks = (low, high, isLog) => {
    const found = [];
    if (isLog) {
      // Within one power of ten each of its parts is a line.
      const steps = high - low > 1 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
      for (let power = Math.floor(low); power <= Math.ceil(high); power++) for (const step of steps) found.push(power + Math.log10(step));
    } else {
      const raw = (high - low) / 7, unit = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].find((factor) => factor * unit >= raw) * unit;
      for (let number = Math.ceil(low / step); number * step <= high; number++) found.push(number * step);
    }
    return found.filter((value) => value >= low && value <= high);
  };

  function draw() {
    const WIDTH = Math.max(340, at("points").clientWidth);
    const x = across.find((axis) => axis.column === at("x").value), y = up.find((axis) => axis.column === at("y").value);
    const place = (row) => (x.log ? Math.log10(row[x.column]) : row[x.column]);
    const points = rows.filter((row) => isShown(row) && row[x.column] !== null && row[y.column] !== null);
    const names = new Set(rows.filter(isShown).map((row) => row.pair));
    for (const line of document.querySelectorAll("tr[data-pair]")) line.hidden = !names.has(line.dataset.pair);
    at("shown").textContent = `${points.length} of ${rows.length} pairs${points.length < names.size ? `, ${names.size - points.length} more without one of the two numbers` : ""}. ${told[x.column]?.[y.column] ?? ""}`;
    const svg = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${y.label} against ${x.label}`, "font-family": "system-ui, sans-serif", xmlns: "http://www.w3.org/2000/svg" });
    at("points").replaceChildren(svg);
    if (!points.length) return;
    const bounds = (values, share, least) => {
      const low = Math.min(...values), high = Math.max(...values), edge = Math.max((high - low) * share, least);
      return [low - edge, high + edge];
    };
    const [x0, x1] = bounds(points.map(place), 0.06, x.log ? 0.1 : 1e-9 + Math.abs(place(points[0])) * 0.05);
    const [y0, y1] = bounds([0, ...points.map((row) => row[y.column])], 0.07, 0.5);
    const right = (value) => LEFT + ((value - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
    const down = (value) => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
    const line = (x_1, y_1, x_2, y_2, width) => svg.append(make("line", { x1: x_1, y1: y_1, x2: x_2, y2: y_2, stroke: "#888888", "stroke-width": width, "stroke-opacity": 0.5 }));
    for (const value of ticks(x0, x1, x.log)) {
      line(right(value), TOP, right(value), HEIGHT - BOTTOM, 0.5);
      svg.append(make("text", { x: right(value), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle", "font-size": 12 }, large(x.log ? 10 ** value : value)));
    }
    for (const value of ticks(y0, y1, false)) {
      line(LEFT, down(value), WIDTH - RIGHT, down(value), value === 0 ? 1.5 : 0.5);
      svg.append(make("text", { x: LEFT - 8, y: down(value) + 4, "text-anchor": "end", "font-size": 12 }, String(+value.toPrecision(6))));
    }
    svg.append(make("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle", "font-size": 13 }, x.label));
    svg.append(make("text", { transform: `translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle", "font-size": 13 }, y.label));
    const taken = points.map((row) => ({ left: right(place(row)) - 6, top: down(row[y.column]) - 6, width: 12, height: 12 }));
    const covers = (box) => box.left < LEFT || box.left + box.width > WIDTH - 2 || box.top < 0 || taken.some((other) => box.left < other.left + other.width && other.left < box.left + box.width && box.top < other.top + other.height && other.top < box.top + box.height);
    for (const row of points) {
      const [px, py] = [right(place(row)), down(row[y.column])];
      const point = make("path", { d: mark(row.stage), transform: `translate(${px} ${py})`, fill: color(row.stage), tabindex: 0 });
      point.append(make("title", {}, `${row.pair} (${row.stage}): ${y.label} ${row[y.column].toFixed(1)}, ${x.label} ${large(row[x.column])}`));
      svg.append(point);
      const width = 6.3 * row.pair.length + 4;
      // A name that would cover another one is in the tooltip alone.
      const spot = [[px + 9, py - 7], [px - 9 - width, py - 7], [px - width / 2, py - 22], [px - width / 2, py + 8], [px + 7, py - 18], [px + 7, py + 5]]
        .map(([left, top]) => ({ left, top, width, height: 14 })).find((box) => !covers(box));
      if (!spot) continue;
      taken.push(spot);
      svg.append(make("text", { x: spot.left + 2, y: spot.top + 11, "font-size": 11 }, row.pair));
    }
  }
  addEventListener("resize", draw);
  for (const id of ["x", "y", "family", "from", "to"]) at(id).addEventListener("change", draw);
  at("save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([at("points").innerHTML], { type: "image/svg+xml" }));
    link.download = "pairs.svg";
    link.click();
  });
  draw();
})();
