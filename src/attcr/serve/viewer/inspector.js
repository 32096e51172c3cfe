// The values of one pixel before and after, its class, and the date that it is from.

import * as service from "./service.js";

const SPOKEN = 4; // bands that are read out

const plain = (value) => (value === null || value === undefined ? "no data" : Number.isInteger(value) ? String(value) : Number(value).toPrecision(4));

function cell(kind, text, scope) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (scope) made.scope = scope;
  return made;
}

function row(...cells) {
  const made = document.createElement("tr");
  made.append(...cells);
  return made;
}

function table(bands) {
  const made = document.createElement("table");
  const head = document.createElement("thead");
  const body = document.createElement("tbody");
  head.append(row(...["Band", "Before", "After", "Change"].map((text) => cell("th", text, "col"))));
  for (const { name, before, after } of bands) {
    const known = typeof before === "number" && typeof after === "number";
    const change = known ? `${after > before ? "+" : ""}${plain(after - before)}` : "";
    body.append(row(cell("th", name, "row"), cell("td", plain(before)), cell("td", plain(after)), cell("td", change)));
  }
  made.append(head, body);
  return made;
}

function lines({ quality, date }, colour) {
  const found = [];
  if (quality) {
    const line = document.createElement("p");
    const swatch = document.createElement("span");
    line.className = "class";
    swatch.className = "swatch";
    swatch.style.backgroundColor = colour;
    line.append(swatch, quality.name);
    found.push(line);
  }
  if (date) found.push(cell("p", `${date.name || `reference ${date.reference}`}${days(date.days)}`));
  return found;
}

function days(count) {
  if (count === null) return "";
  if (count === 0) return ", the same day";
  return `, ${Math.abs(count)} ${Math.abs(count) === 1 ? "day" : "days"} ${count < 0 ? "before" : "after"} the scene`;
}

export class Inspector {
  constructor({ panel, place, body, swipe, refuse, announce }) {
    Object.assign(this, { panel, place, body, swipe, refuse, announce, asking: null });
  }

  async at(info, place) {
    this.asking?.abort();
    this.asking = new AbortController();
    this.swipe.mark(place);
    try {
      const told = await service.point(info.jobID, place, this.asking.signal);
      this.draw(info, place, told);
    } catch (error) {
      if (error.name !== "AbortError") this.close();
      if (error.status === 404) this.announce("There is no pixel of the scene there.");
      else this.refuse(error);
    }
  }

  draw(info, place, told) {
    const on = info.georeferenced ? `${place.lat.toFixed(5)}°, ${place.lng.toFixed(5)}° · ` : "";
    this.place.textContent = `${on}row ${told.row}, column ${told.col}`;
    const colour = info.classes.find(({ value }) => value === told.quality?.value)?.colour;
    this.body.replaceChildren(...lines(told, colour), table(told.bands));
    this.panel.hidden = false;
    const bands = told.bands.slice(0, SPOKEN).map(({ name, before, after }) => `${name} ${plain(before)}, now ${plain(after)}`);
    this.announce(`${told.quality?.name ?? "As it came"}. ${bands.join("; ")}.`);
  }

  close() {
    this.asking?.abort();
    this.panel.hidden = true;
    this.swipe.unmark();
  }
}
