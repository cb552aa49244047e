// The page must leave the machine to what it times. gradio's clock of a pending event asks for every animation frame, and
// never stops where its component goes meanwhile (the page's own loader does): a twentieth of a core, as long as the page
// is open. So a loop that has asked for every frame for two seconds gets one every five seconds. Loops are told apart by
// their code; nothing that shall be seen moving on this page moves that long.
(() => {
  const LONG = 2_000, GAP = 500, REST = 5_000;
  const frame = window.requestAnimationFrame.bind(window);
  const loops = new Map();
  window.requestAnimationFrame = callback => {
    const now = performance.now(), code = String(callback);
    if (!(now - loops.get(code)?.seen < GAP)) loops.set(code, { begun: now });
    const loop = loops.get(code);
    loop.seen = now;
    if (now - loop.begun < LONG) return frame(callback);
    const later = time => {
      loops.get(code).seen = performance.now();
      callback(time);
    };
    setTimeout(() => frame(later), REST - now % REST); // all of them in the same frame
    return 0;
  };
})();
