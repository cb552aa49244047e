// The page must leave the machine to what it times. gradio's clock of a pending event asks for every animation frame, and
// never stops where its component goes meanwhile (the page's own loader does): a twentieth of a core, as long as the page
// is open. So a callback that has asked for itself again in every frame for two seconds gets one every five seconds. Such
// loops are told apart by their code; no animation of this page lasts that long. What an event asks for is no loop.
(() => {
  const LONG = 2_000, GAP = 500, REST = 5_000;
  const frame = window.requestAnimationFrame.bind(window);
  const loops = new Map();
  let running = null;
  window.requestAnimationFrame = callback => {
    const code = String(callback);
    const run = time => {
      const outer = running;
      running = code;
      try {
        callback(time);
      } finally {
        running = outer;
      }
    };
    if (running !== code) return frame(run);
    const now = performance.now();
    if (!(now - loops.get(code)?.seen < GAP)) loops.set(code, { begun: now });
    const loop = loops.get(code);
    loop.seen = now;
    if (now - loop.begun < LONG) return frame(run);
    const later = time => {
      loops.get(code).seen = performance.now();
      run(time);
    };
    setTimeout(() => frame(later), REST - now % REST); // all of them in the same frame
    return 0;
  };
})();
