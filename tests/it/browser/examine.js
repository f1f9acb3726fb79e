// Opens each of FRAMES in a frame of its width and writes what is wrong with it into #found.

// Of 0 to 1 (WCAG 2.2, relative luminance).
function luminance([red, green, blue]) {
  const linear = (value) => (value <= 10.31475 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

function contrast(one, other) {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

// Red, green, blue and opacity of a computed colour; a paint that isn't one has none.
function parse(text) {
  const numbers = (text.match(/[\d.]+/g) || []).map(Number);
  return text.startsWith("rgb") ? [...numbers.slice(0, 3), numbers[3] ?? 1] : [0, 0, 0, 0];
}

function over(top, below) {
  return [0, 1, 2].map((channel) => top[channel] * top[3] + below[channel] * (1 - top[3]));
}

function paint(window, element) {
  const style = window.getComputedStyle(element);
  const is_shape = element instanceof window.SVGGeometryElement;
  if (element instanceof window.SVGElement && !is_shape) return [0, 0, 0, 0];
  const color = parse(is_shape ? style.fill : style.backgroundColor);
  return is_shape ? [...color.slice(0, 3), color[3] * Number(style.fillOpacity)] : color;
}

// The colour behind a point of a text: of all that lies there, from the top to the first that is opaque.
function behind(window, element, x, y) {
  const stack = window.document.elementsFromPoint(x, y);
  // Text of figures isn't pointed at: what lies below it is.
  const is_figure = element instanceof window.SVGElement;
  if (!is_figure && !stack.some((other) => other === element || element.contains(other))) return null;
  const layers = [];
  for (const other of stack) {
    const color = paint(window, other);
    if (color[3] > 0) layers.push(color);
    if (color[3] >= 1) break;
  }
  return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
}

function examineText(window, element) {
  const style = window.getComputedStyle(element);
  const range = window.document.createRange();
  range.selectNodeContents([...element.childNodes].find((node) => node.nodeType === 3 && node.data.trim()));
  element.scrollIntoView({ block: "center", inline: "center" });
  const box = range.getClientRects()[0];
  if (!box || box.width < 1) return null;
  const back = behind(window, element, box.x + box.width / 2, box.y + box.height / 2);
  if (!back) return null;
  const ink = parse(element instanceof window.SVGElement ? style.fill : style.color);
  const size = parseFloat(style.fontSize);
  const is_large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const found = contrast(over(ink, back), back);
  return { text: element.textContent.trim().slice(0, 40), ink, back, contrast: found, isPale: found < (is_large ? 3 : 4.5) };
}

function examine(name, frame) {
  const { contentWindow: window, contentDocument: document } = frame;
  for (const details of document.querySelectorAll("details")) details.open = true;
  const root = document.documentElement;
  const overflow = Math.max(0, root.scrollWidth - root.clientWidth);
  const has_text = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const hidden = ["SCRIPT", "STYLE", "title", "TITLE"];
  let cells = 0;
  const elements = [...document.body.querySelectorAll("*")].filter((element) =>
    !hidden.includes(element.tagName) && has_text(element) && (element.tagName !== "TD" || cells++ < 60));
  const texts = elements.map((element) => examineText(window, element)).filter(Boolean);
  const mute = [...document.querySelectorAll("[data-says]")].filter((box) => {
    box.dispatchEvent(new window.KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    return !box.nextElementSibling.textContent;
  });
  // The keyboard goes through the page from above to below, and stops at all that can be pointed at.
  const stops = [...document.querySelectorAll("a[href], summary, [tabindex]")];
  const top = (element) => element.getBoundingClientRect().top;
  const unreachable = stops.filter((stop, place) => {
    const before = stops[place - 1];
    stop.focus({ preventScroll: true });
    return document.activeElement !== stop || stop.tabIndex !== 0
      || (before && !before.contains(stop) && top(stop) < top(before) - 1);
  });
  const unstopped = [...document.querySelectorAll("figure, table, .bars")].filter((box) => !box.closest("[tabindex]"));
  return {
    name, overflow, stops: stops.length,
    unreachable: unreachable.concat(unstopped).map((stop) => stop.outerHTML.slice(0, 80)), texts: texts.length, pale: texts.filter((text) => text.isPale),
    mute: mute.map((box) => box.getAttribute("aria-label") || box.tagName),
  };
}

async function examineAll() {
  const found = [];
  for (const { name, width, page } of FRAMES) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width:${width}px;height:800px;border:0`;
    frame.srcdoc = page;
    const loaded = new Promise((done) => { frame.onload = done; });
    document.body.append(frame);
    await loaded;
    found.push(examine(name, frame));
    frame.remove();
  }
  const pre = document.createElement("pre");
  pre.id = "found";
  pre.textContent = JSON.stringify(found);
  document.body.append(pre);
}

examineAll();
