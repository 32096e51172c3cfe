// Two maps in one place, before above after: the upper one is cut at the slider and follows the lower.

import { Map, Marker, NavigationControl, ScaleControl } from "./maplibre-gl-6.17.0/maplibre-gl.mjs";
import { headers } from "./service.js";

const GROUND = { light: ["#e6e9eb", "#c3cacf"], dark: ["#22292e", "#39434a"] };
const STEPS = [30, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];
const [WIDE, PANEL] = [700, 290]; // pixels of a map beside whose panel a scene has room, and of that panel
const LINES = 8; // of the graticule across a view, at most

function style(theme) {
  const [ground, line] = GROUND[theme];
  return {
    version: 8,
    sources: { graticule: { type: "geojson", data: { type: "FeatureCollection", features: [] } } },
    layers: [
      { id: "ground", type: "background", paint: { "background-color": ground } },
      { id: "graticule", type: "line", source: "graticule", paint: { "line-color": line, "line-width": 1 } },
    ],
  };
}

function degrees(value, step, names) {
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return `${Math.abs(value).toFixed(digits)}°${value > 1e-9 ? names[0] : value < -1e-9 ? names[1] : ""}`;
}

function multiples(low, high, step) {
  const found = [];
  for (let count = Math.ceil(low / step); count * step <= high; count++) found.push(count * step);
  return found;
}

export class Swipe {
  constructor({ before, after, labels, line, slider, inspect }) {
    const theme = document.documentElement.dataset.theme ?? "light";
    const shared = {
      style: style(theme),
      center: [0, 20],
      zoom: 1,
      attributionControl: false,
      dragRotate: false,
      pitchWithRotate: false,
      touchPitch: false,
      renderWorldCopies: false,
      fadeDuration: 0,
      transformRequest: (url) => ({ url, headers: headers(url) }),
    };
    this.after = new Map({
      ...shared,
      container: after,
      locale: { "Map.Title": "Map of the scene: arrow keys move it, Enter shows the pixel in the middle" },
    });
    this.before = new Map({ ...shared, container: before, interactive: false });
    this.after.touchZoomRotate.disableRotation();
    this.after.keyboard.disableRotation();
    this.after.addControl(new NavigationControl({ showCompass: false }), "top-right");
    this.after.addControl(new ScaleControl(), "bottom-left");
    Object.assign(this, { labels, line, slider, top: before, marker: null });
    this.ready = Promise.all([this.after, this.before].map((map) => new Promise((done) => map.once("load", done))));

    this.after.on("move", () => {
      this.before.jumpTo({ center: this.after.getCenter(), zoom: this.after.getZoom() });
      this.label();
    });
    this.after.on("moveend", () => this.graticule());
    this.ready.then(() => this.graticule());
    this.after.on("click", (event) => inspect(event.lngLat.wrap()));
    this.after.getCanvas().addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      inspect(this.after.getCenter().wrap());
    });
    slider.addEventListener("input", () => this.cut());
    document.addEventListener("theme", (event) => this.paint(event.detail));
  }

  paint(theme) {
    const [ground, line] = GROUND[theme];
    this.ready.then(() => {
      for (const map of [this.after, this.before]) {
        map.setPaintProperty("ground", "background-color", ground);
        map.setPaintProperty("graticule", "line-color", line);
      }
    });
  }

  // Cut the upper map at the slider.
  cut() {
    const part = Number(this.slider.value);
    this.top.style.clipPath = `inset(0 ${100 - part}% 0 0)`;
    this.line.style.left = `${part}%`;
    this.slider.setAttribute("aria-valuetext", `${part} % before, ${100 - part} % after`);
  }

  graticule() {
    const bounds = this.after.getBounds();
    const [west, south, east, north] = [bounds.getWest(), Math.max(bounds.getSouth(), -85), bounds.getEast(), Math.min(bounds.getNorth(), 85)];
    const span = Math.max(east - west, north - south);
    this.step = STEPS.findLast((step) => span / step <= LINES) ?? STEPS[0];
    const pad = this.step * LINES;
    this.meridians = multiples(Math.max(west - pad, -180), Math.min(east + pad, 180), this.step);
    this.parallels = multiples(Math.max(south - pad, -85), Math.min(north + pad, 85), this.step);
    const lines = [
      ...this.meridians.map((lng) => [[lng, Math.max(south - pad, -85)], [lng, Math.min(north + pad, 85)]]),
      ...this.parallels.map((lat) => [[Math.max(west - pad, -180), lat], [Math.min(east + pad, 180), lat]]),
    ];
    const data = { type: "Feature", properties: {}, geometry: { type: "MultiLineString", coordinates: lines } };
    for (const map of [this.after, this.before]) map.getSource("graticule")?.setData(data);
    this.label();
  }

  // Write the degrees at the left and upper rims, where they hide the least.
  label() {
    if (!this.step) return;
    const { clientWidth: width, clientHeight: height } = this.after.getContainer();
    const middle = this.after.getCenter();
    const spans = [];
    const put = (text, left, top, kind) => {
      const span = document.createElement("span");
      span.textContent = text;
      span.className = kind;
      span.style.left = `${left}px`;
      span.style.top = `${top}px`;
      spans.push(span);
    };
    for (const lng of this.meridians) {
      const { x } = this.after.project([lng, middle.lat]);
      if (x > 90 && x < width - 110) put(degrees(lng, this.step, "EW"), x, 4, "longitude");
    }
    for (const lat of this.parallels) {
      const { y } = this.after.project([middle.lng, lat]);
      if (y > 50 && y < height - 50) put(degrees(lat, this.step, "NS"), 4, y, "latitude");
    }
    this.labels.replaceChildren(...spans);
  }

  // Show the layers of a job that are there: {input, result, quality} as addresses of tiles, within bounds.
  async show({ tiles, bounds, minzoom, maxzoom, georeferenced }, fit, colours) {
    this.tiles = tiles;
    await this.ready;
    this.clear();
    this.labels.hidden = !georeferenced;
    const add = (map, name, url, visible) => {
      map.addSource(name, { type: "raster", tiles: [url], tileSize: 256, bounds, minzoom, maxzoom });
      map.addLayer({
        id: name,
        type: "raster",
        source: name,
        layout: { visibility: visible ? "visible" : "none" },
        paint: { "raster-fade-duration": 0, "raster-resampling": "nearest" },
      });
    };
    add(this.before, "input", tiles.input, true);
    if (tiles.result) {
      add(this.after, "result", tiles.result, true);
      add(this.after, "quality", tiles.quality, false);
      this.cut();
    }
    const wide = this.after.getContainer().clientWidth > WIDE;
    const padding = { top: 48, bottom: 48, left: 48, right: wide ? PANEL : 48 };
    this.colours(colours);
    if (fit) this.after.fitBounds(bounds, { padding, animate: false, maxZoom: maxzoom });
  }

  // Show other bands as red, green and blue.
  colours(kind) {
    for (const [map, name, url] of [[this.before, "input", this.tiles?.input], [this.after, "result", this.tiles?.result]]) {
      if (url) map.getSource(name)?.setTiles([`${url}&show=${kind}`]);
    }
  }

  quality(visible, opacity) {
    if (!this.after.getLayer("quality")) return;
    this.after.setLayoutProperty("quality", "visibility", visible ? "visible" : "none");
    this.after.setPaintProperty("quality", "raster-opacity", opacity);
  }

  clear() {
    this.unmark();
    this.top.style.clipPath = "";
    for (const [map, name] of [[this.before, "input"], [this.after, "result"], [this.after, "quality"]]) {
      if (map.getLayer(name)) map.removeLayer(name);
      if (map.getSource(name)) map.removeSource(name);
    }
  }

  mark(place) {
    this.marker ??= new Marker({ element: pin(), anchor: "center" });
    this.marker.setLngLat(place).addTo(this.after);
  }

  unmark() {
    this.marker?.remove();
    this.marker = null;
  }
}

function pin() {
  const element = document.createElement("div");
  element.className = "pin";
  return element;
}
