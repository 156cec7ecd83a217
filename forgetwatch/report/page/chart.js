"use strict";
// The curve of a run, drawn by uPlot: hover or arrow keys show a look, a click or Enter lists its questions.
(() => {
  const at = (id) => document.getElementById(id);
  if (!at("chart")) return;
  const { steps, views } = JSON.parse(at("looks").textContent);
  const holder = at("chart"), told = at("point"), figure = holder.parentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(1);
  let chart, look = steps.length - 1, line = 0, view = views[0];

  const share = () => view.label.endsWith("%");
  const shown = (value) => (share() ? value.toFixed(value < 10 ? 1 : 0) : signed(value));

  const tell = () => {
    const one = view.series[line], value = one.value[look], known = value !== null;
    const numbers = !known ? "not measured" : one.low ? `${shown(value)}${share() ? " %" : " points"} (${shown(one.low[look])} to ${shown(one.high[look])}); ${one.forgotten[look].toLocaleString("en")} lost, ${one.gained[look].toLocaleString("en")} gained of ${one.n.toLocaleString("en")}` : Number(value.toPrecision(3));
    told.textContent = `step ${steps[look].toLocaleString("en")}, ${one.low ? one.category || "all questions" : view.label}: ${numbers}`;
  };

  const list = (category, step) => {
    const filters = at("filters");
    if (!filters) return;
    const set = (id, value) => { const box = at(id); if (box && [...box.options].some((one) => one.value === value)) box.value = value; };
    set("category", category);
    set("look", step === null ? "" : String(step));
    set("what", "forgotten");
    filters.dispatchEvent(new Event("input"));
    at("items").querySelector("details").open = true;
    at("items").scrollIntoView({ behavior: "smooth" });
  };

  // The line whose value at the look is nearest to the pointer.
  const nearest = (chart) => {
    const far = view.series.map((one) => (one.value[look] === null ? Infinity : Math.abs(chart.valToPos(one.value[look], "y") - chart.cursor.top)));
    return far.indexOf(Math.min(...far));
  };

  const options = () => {
    const { limit, series } = view, whole = series[0];
    const ink = color("--quiet"), grid = color("--line"), colors = [color("--accent"), color("--lost"), color("--unclear"), color("--won"), ink];
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui, sans-serif" };
    return {
      width: holder.clientWidth, height: 230, legend: { live: false },
      scales: { x: { time: false }, y: { range: (u, low, high) => { const room = 0.06 * (high - low || 1); return [Math.min(low, limit ?? low) - room, Math.max(high, limit ?? high) + room]; } } },
      axes: [{ ...axis, size: 28, label: "step", labelSize: 16, labelGap: 0, labelFont: axis.font }, { ...axis, size: 44, label: view.label, labelSize: 16, labelFont: axis.font }],
      series: [{},
        ...series.map((one, index) => ({ label: one.category || (one.low ? "all questions" : view.label), stroke: colors[index % colors.length], width: index ? 1.5 : 2.5, points: { show: true, size: 5 } })),
        ...(limit === null ? [] : [{ label: `limit ${limit}${share() ? " %" : ""}`, stroke: ink, dash: [3, 4], width: 1, points: { show: false } }]),
        ...(whole.low ? [{ label: "high", stroke: "transparent", points: { show: false } }, { label: "low", stroke: "transparent", points: { show: false } }] : [])],
      bands: whole.low ? [{ series: [series.length + 1 + (limit !== null), series.length + 2 + (limit !== null)], fill: `${colors[0]}26` }] : [],
      cursor: { drag: { x: false, y: false }, points: { size: 8 } },
      hooks: { setCursor: [(u) => { if (u.cursor.idx === null || u.cursor.left < 0) return; look = u.cursor.idx; line = nearest(u); tell(); }] },
    };
  };

  const draw = () => {
    chart?.destroy();
    const { limit, series } = view, whole = series[0];
    const others = [...(limit === null ? [] : [steps.map(() => limit)]), ...(whole.low ? [whole.high, whole.low] : [])];
    chart = new uPlot(options(), [steps, ...series.map((one) => one.value), ...others], holder);
    const rows = [...holder.querySelectorAll(".u-series")];
    // The ends of the interval are lines for uPlot, and a band for the reader.
    if (whole.low) rows.splice(-2).forEach((row) => row.remove());
    if (limit !== null) rows.at(-1).querySelector(".u-marker").classList.add("dashed");
    chart.over.addEventListener("click", () => list(view.series[line].category, look ? steps[look] : null));
    tell();
  };

  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  holder.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list(view.series[line].category, look ? steps[look] : null);
    else if (event.key in moves) {
      const [along, across] = moves[event.key];
      look = Math.min(steps.length - 1, Math.max(0, look + along));
      line = (line + across + view.series.length) % view.series.length;
      const value = view.series[line].value[look];
      if (value !== null) chart.setCursor({ left: chart.valToPos(steps[look], "x"), top: chart.valToPos(value, "y") }, false);
      tell();
    } else return;
    event.preventDefault();
  });
  document.querySelectorAll("#summary .category").forEach((cell) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.append(...cell.childNodes);
    button.addEventListener("click", () => list(button.textContent, null));
    cell.append(button);
  });
  const tabs = at("views");
  views.forEach((one) => {
    const tab = document.createElement("button");
    tab.type = "button";
    tab.textContent = one.label;
    tab.setAttribute("aria-pressed", String(one === view));
    tab.addEventListener("click", () => {
      view = one;
      line = Math.min(line, one.series.length - 1);
      [...tabs.children].forEach((other) => other.setAttribute("aria-pressed", String(other === tab)));
      draw();
    });
    tabs.append(tab);
  });
  holder.setAttribute("aria-label", "Curves at each look: arrow keys move along looks and lines, Enter lists the questions.");
  figure.classList.add("live");
  holder.hidden = told.hidden = false;
  tabs.hidden = views.length < 2;
  draw();
  new ResizeObserver(() => { if (holder.clientWidth) chart.setSize({ width: holder.clientWidth, height: 230 }); }).observe(holder);
  dark.addEventListener("change", draw);
})();
