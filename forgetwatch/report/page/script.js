"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const PAGE = 50;
  const names = { known_lost: "clearly known, now lost", forgotten: "forgotten", gained: "gained", churned: "wrong, and now wrong otherwise" };
  const holds = { known_lost: (f) => f.what === "forgotten" && f.known, forgotten: (f) => f.what === "forgotten", gained: (f) => f.what === "gained", churned: (f) => f.what === "churned" };
  let shown = PAGE;

  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined && text !== null) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const option = (select, value, text) => { const made = element("option", text); made.value = value; select.append(made); };
  const each = (key) => [...new Set(data.flips.map((flip) => flip[key]))].filter(Boolean).sort();

  for (const key of Object.keys(names)) if (data.counts[key] !== undefined) option(at("what"), key, `${names[key]} (${data.counts[key]})`);
  for (const key of ["category", "task"]) {
    option(at(key), "", "all");
    for (const name of each(key)) option(at(key), name, name);
    if (at(key).options.length < 3) at(key).parentElement.hidden = true;
  }

  const words = (flip) => (flip.words ??= [flip.id, flip.task, flip.category, flip.question, ...flip.options, flip.right, flip.before.answer,
    flip.after.answer, ...flip.before.parts.map((part) => part[1]), ...flip.after.parts.map((part) => part[1])].filter(Boolean).join("\n").toLowerCase());
  const order = {
    margin: (a, b) => (b.margin ?? -1) - (a.margin ?? -1),
    first: (a, b) => (a.first ?? Infinity) - (b.first ?? Infinity) || a.place - b.place,
    place: (a, b) => a.place - b.place,
  };

  const output = (title, side, tag) => {
    const box = element("div");
    box.append(element("h4", title));
    const text = element("div", null, "text");
    for (const [same, part] of side.parts) text.append(same ? document.createTextNode(part) : element(tag, part));
    if (side.cut) text.append(element("em", ` … cut here; ${side.cut.toLocaleString("en")} characters in all`));
    box.append(text);
    return box;
  };

  const body = (flip) => {
    const made = element("div", null, "body");
    if (flip.question) made.append(element("p", flip.question, "text question"));
    if (flip.options.length) {
      const list = element("ol", null, "options");
      flip.options.forEach((text, index) => {
        const line = element("li");
        line.append(element("span", text, "text"));
        const marks = [flip.gold.includes(index) && "right", flip.before.chosen === index && "chosen before", flip.after.chosen === index && "chosen after"].filter(Boolean);
        if (marks.length) line.append(element("span", marks.join(", "), "mark"));
        list.append(line);
      });
      made.append(list);
    }
    const facts = [flip.right && !flip.options.length ? `right: ${flip.right}` : null, `before: ${flip.before.answer ?? "not logged"}`, `after: ${flip.after.answer ?? "not logged"}`,
      flip.margin === null ? null : `surest by ${flip.margin.toFixed(2)} nats`, flip.first === null ? null : `first forgotten at step ${flip.first}`, `${flip.task} / ${flip.id}`];
    made.append(element("p", facts.filter(Boolean).join("; "), "text quiet"));
    if (flip.before.parts.length || flip.after.parts.length) {
      const pair = element("div", null, "outputs");
      pair.append(output("wrote before", flip.before, "del"), output("wrote after", flip.after, "ins"));
      made.append(pair);
    }
    return made;
  };

  const card = (flip) => {
    const made = element("details");
    const line = element("summary");
    line.append(element("span", flip.what === "forgotten" && flip.known ? "known, lost" : flip.what === "churned" ? "wrong, other" : flip.what, `tag ${flip.what}`));
    line.append(element("span", (flip.question ?? flip.id).slice(-220), "text title"));
    made.append(line);
    made.addEventListener("toggle", () => { if (made.open && made.childElementCount === 1) made.append(body(flip)); });
    return made;
  };

  const draw = () => {
    const wanted = at("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const what = at("what").value, category = at("category").value, task = at("task").value;
    const found = data.flips.filter((flip) => (holds[what] ?? (() => true))(flip) && (!category || flip.category === category) &&
      (!task || flip.task === task) && wanted.every((word) => words(flip).includes(word))).sort(order[at("order").value]);
    at("list").replaceChildren(...found.slice(0, shown).map(card));
    at("count").textContent = found.length ? `${Math.min(shown, found.length).toLocaleString("en")} of ${found.length.toLocaleString("en")} shown` : "none";
    at("more").hidden = found.length <= shown;
  };
  at("filters").addEventListener("input", () => { shown = PAGE; draw(); });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("more").addEventListener("click", () => { shown += PAGE; draw(); });
  draw();
})();
