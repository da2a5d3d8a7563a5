() => {
  // A colour as [red, green, blue, opacity], whatever it was written as.
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const read = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, opacity] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, opacity / 255]);
    }
    return known.get(colour);
  };
  const over = ([r, g, b, a], ground) => [r, g, b].map((c, i) => c * a + ground[i] * (1 - a));
  const luminance = (colour) => {
    const [r, g, b] = colour.map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const ground = read(getComputedStyle(element).backgroundColor);
    return ground[3] === 1 ? ground : over(ground, behind(element.parentElement));
  };

  const found = new Map();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode());) {
    const element = text.parentElement;
    // Drawings have a test of their own for the colours.
    if (!text.data.trim() || element.closest("svg, script, style, template")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(element), ground = behind(element);
    const pair = [over(read(style.color), ground), ground].map(luminance).sort((one, other) => one - other);
    const size = parseFloat(style.fontSize), bold = style.fontWeight >= 700;
    const needed = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    const ratio = (pair[1] + 0.05) / (pair[0] + 0.05);
    if (ratio < needed) {
      const key = `${style.color} on ${ground.map(Math.round)}`;
      found.set(key, `${key}, ${ratio.toFixed(2)}: ${text.data.trim().slice(0, 40)}`);
    }
  }
  return [...found.values()];
}
