// Slows down endless animation loops, which take CPU time from what is being timed. gradio's timer of a pending event requests
// every animation frame, and does not stop if its component is removed meanwhile, as the page's loader is: a twentieth of a
// core for as long as the page is open. A callback that has requested itself in every frame for two seconds therefore gets
// one frame every five seconds. Loops are told apart by the source of their callback. No animation of this page lasts two
// seconds. A frame requested outside of a callback is never delayed.
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
    setTimeout(() => frame(later), REST - now % REST); // all loops in the same frame
    return 0;
  };
})();
