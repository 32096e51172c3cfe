// What is dropped, as scenes: files of bands that belong together are one, and archives are opened here.

const BAND = /^(.*?)_(B\d[\dA]|SR_B\d|B\d)(_\d\dm)?\.(jp2|tiff?)$/i;
const LEFT_OUT = /(^|\/)(QI_DATA|AUX_DATA)\/|_(TCI|AOT|WVP|SCL)_|_PVI\./i; // of a SAFE: masks, previews and layers that are no bands
const NO_BANDS = { L1: ["B8"], L2: [] }; // of Landsat: what has another grid

const text = (bytes) => new TextDecoder().decode(bytes).replace(/\0.*$/s, "");
const bytesOf = async (blob) => new DataView(await blob.arrayBuffer());
const inflated = (blob, kind) => new Response(blob.stream().pipeThrough(new DecompressionStream(kind))).blob();

async function unzip(file) {
  const tail = await bytesOf(file.slice(Math.max(file.size - 65557, 0)));
  let at = tail.byteLength - 22;
  while (at >= 0 && tail.getUint32(at, true) !== 0x06054b50) at--;
  if (at < 0) throw new Error(`${file.name} is no whole zip file: download it again.`);
  const [count, size, start] = [tail.getUint16(at + 10, true), tail.getUint32(at + 12, true), tail.getUint32(at + 16, true)];
  if (start === 0xffffffff) throw new Error(`${file.name} is too large to open here: unpack it, and drop its folder.`);
  const list = await bytesOf(file.slice(start, start + size));
  const found = [];
  for (let number = 0, place = 0; number < count; number++) {
    const [method, packed] = [list.getUint16(place + 10, true), list.getUint32(place + 20, true)];
    const [length, extra, comment] = [28, 30, 32].map((offset) => list.getUint16(place + offset, true));
    const path = text(new Uint8Array(list.buffer, place + 46, length));
    const offset = list.getUint32(place + 42, true);
    found.push({ path, read: () => entry(file, offset, packed, method) });
    place += 46 + length + extra + comment;
  }
  return found;
}

async function entry(file, offset, size, method) {
  const head = await bytesOf(file.slice(offset, offset + 30));
  const start = offset + 30 + head.getUint16(26, true) + head.getUint16(28, true);
  const packed = file.slice(start, start + size);
  return method === 8 ? inflated(packed, "deflate-raw") : packed;
}

async function untar(file) {
  const whole = /gz$/i.test(file.name) ? await inflated(file, "gzip") : file;
  const found = [];
  for (let at = 0; at + 512 <= whole.size; ) {
    const head = new Uint8Array(await whole.slice(at, at + 512).arrayBuffer());
    const size = parseInt(text(head.subarray(124, 136)), 8) || 0;
    const start = at + 512;
    if (head[0] && "0\0".includes(String.fromCharCode(head[156]))) {
      found.push({ path: text(head.subarray(0, 100)), read: async () => whole.slice(start, start + size) });
    }
    at = start + Math.ceil(size / 512) * 512;
  }
  return found;
}

// The files of what was dropped, folders too; the entries are asked for at once, since they are gone after the event.
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((one) => one.isDirectory)) return [...transfer.files].map((file) => ({ path: file.name, read: async () => file, file }));
  return (await Promise.all(entries.map(walk))).flat();
}

async function walk(one) {
  if (one.isFile) return [{ path: one.fullPath, read: () => new Promise((done, failed) => one.file(done, failed)) }];
  const reader = one.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return found;
    found.push(...(await Promise.all(some.map(walk))).flat());
  }
}

// The scenes among files: {name, parts}, each part a name and what reads it.
export async function scenes(files) {
  const found = [];
  const loose = [];
  for (const one of files) {
    const name = one.path.split("/").pop();
    if (!/\.(zip|tar|tar\.gz|tgz)$/i.test(name)) {
      loose.push(one);
      continue;
    }
    const file = one.file ?? (await one.read());
    const inside = together(/zip$/i.test(name) ? await unzip(file) : await untar(file));
    const [largest] = inside.sort((a, b) => b.parts.length - a.parts.length);
    if (!largest) throw new Error(`${name} holds no bands of Sentinel-2 or Landsat, and no raster: unpack it, and drop its files.`);
    found.push({ ...largest, name: largest.parts.length > 1 ? name.replace(/\.[^.]*$/, "") : largest.name });
  }
  return [...found, ...together(loose)];
}

function together(files) {
  const groups = new Map();
  const single = [];
  for (const { path, read } of files) {
    const name = path.split("/").pop();
    if (LEFT_OUT.test(path) || !/\.(tiff?|jp2|png|jpe?g|webp)$/i.test(name)) continue;
    const told = BAND.exec(name);
    if (!told) {
      single.push({ name, parts: [{ name, read }] });
      continue;
    }
    const [, stem, band, size] = told;
    if (/_L1TP|_L1GT|_L1GS/i.test(stem) && NO_BANDS.L1.includes(band.toUpperCase())) continue;
    const group = groups.get(stem) ?? new Map();
    const before = group.get(band);
    if (!before || (size ?? "") < before.size) group.set(band, { name, read, size: size ?? "" }); // each band at its finest
    groups.set(stem, group);
  }
  const many = [...groups].map(([stem, group]) => ({ name: stem, parts: [...group.values()] }));
  const bands = many.some(({ parts }) => parts.length > 1);
  // beside the bands of a product its other rasters are no scenes
  return bands ? many : [...many.map(({ parts: [part] }) => ({ name: part.name, parts: [part] })), ...single];
}
