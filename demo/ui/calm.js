// The page must leave the machine to what it times. gradio's clock of a pending event asks for every animation frame, and
// never stops where its component goes meanwhile (the page's own loader does): a twentieth of a core, as long as the page
// is open. So a loop that has asked for every frame for two seconds gets one a second. Loops are told apart by their code;
// nothing that shall be seen moving on this page moves that long.
(() => {
  const LONG = 2_000, REST = 1_000;
  const frame = window.requestAnimationFrame.bind(window);
  const loops = new Map();
  window.requestAnimationFrame = callback => {
    const now = performance.now(), code = String(callback);
    let loop = loops.get(code);
    if (!loop || now - loop.latest > 2 * REST) loops.set(code, loop = { begun: now });
    loop.latest = now;
    if (now - loop.begun < LONG) return frame(callback);
    setTimeout(() => frame(callback), REST - now % REST); // all of them in the same frame
    return 0;
  };
})();
