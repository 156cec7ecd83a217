"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const side = { chosen: null, answer: null, parts: [], cut: 0 };
  const empty = { loss: null, again: null, mass: null, conditional: null, question: null, right: null, margin: null, first: null, options: [], gold: [] };
  data.flips = data.flips.map((flip) => ({ ...empty, ...flip, before: { ...side, ...flip.before }, after: { ...side, ...flip.after } }));
  const at = (id) => document.getElementById(id);
  // Paper has no folds.
  addEventListener("beforeprint", () => document.querySelectorAll("details.fold").forEach((fold) => { fold.open = true; }));
  if (!at("filters")) return;
  at("filters").hidden = false;
  const PAGE = 50;
  const names = { everywhere: "lost in every wording", known_lost: "clearly known, now lost", form_lost: "lost by form, not by knowledge", forgotten: "forgotten", gained: "gained", churned: "wrong both times, with another answer" };
  const holds = { everywhere: (f) => f.again === "lost in every wording", known_lost: (f) => f.what === "forgotten" && f.known, form_lost: (f) => f.loss === "form", forgotten: (f) => f.what === "forgotten", gained: (f) => f.what === "gained", churned: (f) => f.what === "churned" };
  let shown = PAGE;

  const element = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined && text !== null) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const option = (select, value, text) => { const made = element("option", text); made.value = value; select.append(made); };
  const each = (key) => [...new Set(data.flips.map((flip) => flip[key]))].filter(Boolean).sort();

  for (const key of Object.keys(names)) if (data.counts[key] !== undefined) option(at("what"), key, `${names[key]} (${data.counts[key].toLocaleString("en")})`);
  for (const key of ["category", "task"]) {
    option(at(key), "", "all");
    for (const name of each(key)) option(at(key), name, name);
    if (at(key).options.length < 3) at(key).parentElement.hidden = true;
  }

  const firsts = [...new Set(data.flips.map((flip) => flip.first))].filter((step) => step !== null).sort((a, b) => a - b);
  option(at("look"), "", "at any look");
  for (const step of firsts) option(at("look"), String(step), `at step ${step.toLocaleString("en")}`);
  at("look").parentElement.hidden = firsts.length < 1;

  if (!data.flips.some((flip) => flip.margin !== null)) at("order").querySelector("[value=margin]").remove();
  if (!data.flips.some((flip) => flip.first !== null)) at("order").querySelector("[value=first]").remove();
  if (at("order").options.length < 2) at("order").parentElement.hidden = true;

  const words = (flip) => (flip.words ??= [flip.id, flip.task, flip.category, flip.question, ...flip.options, flip.right, flip.before.answer,
    flip.after.answer, ...flip.before.parts.map((part) => part[1]), ...flip.after.parts.map((part) => part[1])].filter(Boolean).join("\n").toLowerCase());
  const orders = {
    margin: (a, b) => (b.margin ?? -1) - (a.margin ?? -1),
    first: (a, b) => (a.first ?? Infinity) - (b.first ?? Infinity) || a.place - b.place,
    place: (a, b) => a.place - b.place,
  };

  const output = (title, side, tag) => {
    const box = element("div");
    box.append(element("h3", title));
    const text = element("div", null, "text");
    for (const [same, part] of side.parts) text.append(same ? document.createTextNode(part) : element(tag, part));
    if (side.cut) text.append(element("em", ` … cut here; ${side.cut.toLocaleString("en")} characters in all`));
    box.append(text);
    return box;
  };

  const LONGEST_TITLE = 220;
  const title = (flip) => {
    if (flip.question === null) return `${flip.task} / ${flip.id}`;
    const letters = [...flip.question.trim().replace(/\s+/g, " ")];
    return letters.length > LONGEST_TITLE ? `… ${letters.slice(-LONGEST_TITLE).join("")}` : letters.join("");
  };
  const brief = (answer) => {
    const letters = [...(answer ?? "not logged").trim().replace(/\s+/g, " ")];
    return letters.length > 60 ? `${letters.slice(0, 60).join("").trimEnd()} …` : letters.join("") || "nothing";
  };

  const wrote = (side) => side.chosen === null && side.parts.length > 0; // the output is shown below, in full

  const body = (flip) => {
    const made = element("div", null, "body");
    if (flip.question && flip.question !== title(flip)) made.append(element("p", flip.question, "text question"));
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
    const facts = [
      ["right", flip.options.length ? null : flip.right ?? "not logged"],
      ["before", wrote(flip.before) ? null : flip.before.answer ?? "not logged"],
      ["after", wrote(flip.after) ? null : flip.after.answer ?? "not logged"],
      ["margin", flip.margin === null ? null : `${flip.margin.toFixed(2)} nats`],
      ["asked again", flip.again],
      ["loss", flip.loss === null ? null : flip.loss === "form" ? "of form: nothing shows that the knowledge is gone" : "of knowledge: another answer is preferred"],
      ["mass", flip.mass === null ? null : `${flip.mass} nats: all options together`],
      ["within", flip.conditional === null ? null : `${flip.conditional} nats: the right option's share of them`],
      ["first forgotten", flip.first === null ? null : `at step ${flip.first.toLocaleString("en")}`],
      ["item", [flip.category, flip.task, flip.id].filter(Boolean).join(" / ") + (flip.sample ? `, sample ${flip.sample}` : "")],
    ];
    const list = element("dl");
    for (const [name, text] of facts) if (text !== null) list.append(element("dt", name), element("dd", text, "text"));
    made.append(list);
    if (flip.before.parts.length || flip.after.parts.length) {
      const pair = element("div", null, "outputs");
      pair.append(output("Output before", flip.before, "del"), output("Output after", flip.after, "ins"));
      made.append(pair);
    }
    return made;
  };

  const card = (flip) => {
    const made = element("details");
    const line = element("summary");
    line.append(element("span", flip.what === "forgotten" && flip.known ? "known, lost" : flip.what === "churned" ? "still wrong" : flip.what, `tag ${flip.what}`));
    line.append(element("span", title(flip), "text title"));
    const change = element("span", null, "change");
    change.append(element("span", brief(flip.before.answer), "text"), " → ", element("span", brief(flip.after.answer), "text"));
    line.append(change);
    made.append(line);
    made.addEventListener("toggle", () => { if (made.open && made.childElementCount === 1) made.append(body(flip)); });
    return made;
  };

  const draw = () => {
    const order = orders[at("order").value];
    const wanted = at("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const what = at("what").value, category = at("category").value, task = at("task").value, look = at("look").value;
    const found = data.flips.filter((flip) => (holds[what] ?? (() => true))(flip) && (!category || flip.category === category) &&
      (!task || flip.task === task) && (!look || String(flip.first) === look) && wanted.every((word) => words(flip).includes(word))).sort(order);
    at("list").replaceChildren(...found.slice(0, shown).map(card));
    at("count").textContent = found.length ? `${Math.min(shown, found.length).toLocaleString("en")} of ${found.length.toLocaleString("en")} shown` : "No question fits these filters.";
    at("more").hidden = found.length <= shown;
  };
  at("filters").addEventListener("input", () => { shown = PAGE; draw(); });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  at("more").addEventListener("click", () => {
    const first = shown;
    shown += PAGE;
    draw();
    at("list").children[first]?.firstElementChild.focus(); // the keyboard continues where the list was cut
  });
  draw();
})();
