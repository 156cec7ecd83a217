"use strict";
// The curve of a run, drawn by uPlot: hover or arrow keys show a look, a click or Enter lists its questions.
(() => {
  const at = (id) => document.getElementById(id);
  if (!at("chart")) return;
  const { steps, limit, series, task } = JSON.parse(at("looks").textContent);
  const holder = at("chart"), told = at("point"), figure = holder.parentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(1);
  let chart, look = steps.length - 1, line = 0;

  const tell = () => {
    const one = series[line], change = one.change[look];
    const numbers = change === null ? "not measured" : `${signed(change)} points (${signed(one.low[look])} to ${signed(one.high[look])}); ${one.forgotten[look].toLocaleString("en")} forgotten, ${one.gained[look].toLocaleString("en")} gained of ${one.n.toLocaleString("en")}`;
    const gain = task && task.values[look] !== null ? `; ${task.name} ${Number(task.values[look].toPrecision(3))}` : "";
    told.textContent = `step ${steps[look].toLocaleString("en")}, ${one.category || "all questions"}: ${numbers}${gain}`;
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
    const far = series.map((one) => (one.change[look] === null ? Infinity : Math.abs(chart.valToPos(one.change[look], "y") - chart.cursor.top)));
    return far.indexOf(Math.min(...far));
  };

  const options = () => {
    const ink = color("--quiet"), grid = color("--line"), colors = [color("--accent"), color("--lost"), color("--unclear"), color("--won"), ink];
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui, sans-serif" };
    return {
      width: holder.clientWidth, height: 230, legend: { live: false },
      scales: { x: { time: false }, y: { range: (u, low, high) => [Math.min(low, limit ?? 0) - 2, Math.max(high, 0) + 2] } },
      axes: [{ ...axis, size: 28, label: "step", labelSize: 16, labelGap: 0, labelFont: axis.font }, { ...axis, size: 44, label: "net change, points", labelSize: 16, labelFont: axis.font },
        ...(task ? [{ ...axis, scale: "task", side: 1, size: 44, label: task.name, labelSize: 16, labelFont: axis.font, grid: { show: false } }] : [])],
      series: [{},
        ...series.map((one, index) => ({ label: one.category || "all questions", stroke: colors[index % colors.length], width: index ? 1.5 : 2.5, points: { show: true, size: 5 } })),
        { label: "high", stroke: "transparent", points: { show: false } }, { label: "low", stroke: "transparent", points: { show: false } },
        ...(limit === null ? [] : [{ label: `limit ${limit}`, stroke: ink, dash: [3, 4], width: 1, points: { show: false } }]),
        ...(task ? [{ label: `new task: ${task.name}`, scale: "task", stroke: ink, dash: [8, 4], width: 1.5, spanGaps: true }] : [])],
      bands: [{ series: [series.length + 1, series.length + 2], fill: `${colors[0]}26` }],
      cursor: { drag: { x: false, y: false }, points: { size: 8 } },
      hooks: { setCursor: [(u) => { if (u.cursor.idx === null || u.cursor.left < 0) return; look = u.cursor.idx; line = nearest(u); tell(); }] },
    };
  };

  const draw = () => {
    chart?.destroy();
    const others = [...(limit === null ? [] : [steps.map(() => limit)]), ...(task ? [task.values] : [])];
    chart = new uPlot(options(), [steps, ...series.map((one) => one.change), series[0].high, series[0].low, ...others], holder);
    // The ends of the interval are lines for uPlot, and a band for the reader.
    [...holder.querySelectorAll(".u-series")].slice(-2 - others.length).slice(0, 2).forEach((row) => row.remove());
    chart.over.addEventListener("click", () => list(series[line].category, look ? steps[look] : null));
    tell();
  };

  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  holder.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list(series[line].category, look ? steps[look] : null);
    else if (event.key in moves) {
      const [along, across] = moves[event.key];
      look = Math.min(steps.length - 1, Math.max(0, look + along));
      line = (line + across + series.length) % series.length;
      const value = series[line].change[look];
      if (value !== null) chart.setCursor({ left: chart.valToPos(steps[look], "x"), top: chart.valToPos(value, "y") }, false);
      tell();
    } else return;
    event.preventDefault();
  });
  document.querySelectorAll("#summary table.words tbody th").forEach((cell) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.append(...cell.childNodes);
    button.addEventListener("click", () => list(button.textContent, null));
    cell.append(button);
  });
  holder.setAttribute("aria-label", "Net change at each look: arrow keys move along looks and lines, Enter lists the questions.");
  figure.classList.add("live");
  holder.hidden = told.hidden = false;
  draw();
  new ResizeObserver(() => { if (holder.clientWidth) chart.setSize({ width: holder.clientWidth, height: 230 }); }).observe(holder);
  dark.addEventListener("change", draw);
})();
