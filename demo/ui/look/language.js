// The language switch. A choice made with the arrow keys counts when Enter is pressed or the focus leaves: otherwise each
// step would reload the page.
(() => {
  let stepping = false;
  const speak = select => {
    const here = new URL(location);
    document.cookie = `lang=${select.value};path=/;max-age=31536000;SameSite=Lax`;
    here.searchParams.set('lang', select.value);  // in a frame of another site a cookie may be refused
    location.assign(here);
  };
  const changed = select => select.value !== document.documentElement.lang;
  const on = (event, act) => document.addEventListener(event, e => { if (e.target.id === 'language') act(e); });

  on('pointerdown', () => { stepping = false; });
  on('keydown', event => {
    stepping = event.key !== 'Enter';
    if (event.key === 'Enter' && changed(event.target)) speak(event.target);
  });
  on('change', event => { if (!stepping) speak(event.target); });
  on('focusout', event => { if (stepping && changed(event.target)) speak(event.target); });
})();
