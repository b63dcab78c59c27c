/** Pages of our own with known main text, each built the way a kind of site builds them. */
const SENTENCES = [
  'The harbour was rebuilt in three stages, and each of them changed how the town lived.',
  'Fishing boats, once forty of them, now share the quay with ferries and a research vessel.',
  'Engineers drove oak piles, then steel ones, into ground that had never been surveyed.',
  'Local records mention storms, floods and a fire, yet trade returned within months each time.',
  'Today the tide gate closes about twelve times a year, mostly in the winter months.',
  'Plans for the next decade foresee a higher wall, a wider basin and a quieter street.',
];
export const MAIN_TEXT: readonly string[] = [0, 1, 2].flatMap((round) =>
  SENTENCES.map((sentence) => sentence.replace('.', `, as report ${round + 1} says.`)),
);
/** Text that is not the main text of any page. */
export const NOISE_TEXT = [
  'Accept all cookies',
  'Subscribe to our newsletter',
  'You may also like',
  'Copyright 2026 Harbour News',
  'Advertisement',
];

const paragraphs = (tag: string) => MAIN_TEXT.map((sentence) => `<${tag}>${sentence}</${tag}>`).join('\n');
const nav =
  '<nav><ul><li><a href="/">Home</a></li><li><a href="/news">News</a></li><li><a href="/about">About</a></li></ul></nav>';
const footer = '<footer><p>Copyright 2026 Harbour News</p><a href="/imprint">Imprint</a></footer>';
const aside =
  '<aside class="sidebar"><h3>You may also like</h3><ul><li><a href="/a">A</a></li><li><a href="/b">B</a></li></ul><p>Advertisement</p></aside>';
const banner = '<div class="cookie-banner" id="cookie"><p>Accept all cookies</p><button>OK</button></div>';
const form = '<form class="newsletter"><label>Subscribe to our newsletter</label><input></form>';
const page = (body: string) =>
  `<!doctype html><html lang="en"><head><title>The harbour</title><meta name="description" content="A history"><meta property="article:published_time" content="2026-03-01"><link rel="canonical" href="/harbour"></head><body>${body}<script>var x = "Advertisement";</script></body></html>`;

/** Ten ways to build the same article. */
export const ARTICLE_PAGES: readonly (readonly [string, string])[] = [
  ['article element', page(`${nav}<article><h1>The harbour</h1>${paragraphs('p')}</article>${aside}${footer}`)],
  ['main element', page(`${banner}${nav}<main><h1>The harbour</h1>${paragraphs('p')}</main>${footer}`)],
  [
    'class names only',
    page(
      `<div class="header">${nav}</div><div class="content"><div class="post-body"><h1>The harbour</h1>${paragraphs('p')}</div></div><div class="footer">${footer}</div>`,
    ),
  ],
  [
    'layout table',
    page(
      `<table><tr><td class="menu">${nav}</td><td><h1>The harbour</h1>${paragraphs('p')}</td><td>${aside}</td></tr></table>`,
    ),
  ],
  ['divs as paragraphs', page(`${nav}<div id="story">${paragraphs('div')}</div>${aside}${footer}`)],
  [
    'deep nesting',
    page(`${nav}<div><div><div><section><div>${paragraphs('p')}</div></section></div></div></div>${form}${footer}`),
  ],
  [
    'sections with headings',
    page(
      `${nav}<article>${MAIN_TEXT.map((sentence, index) => `<section><h2>Part ${index + 1}</h2><p>${sentence}</p></section>`).join('')}</article>${form}${footer}`,
    ),
  ],
  [
    'advertisements between',
    page(
      `${nav}<article>${MAIN_TEXT.map((sentence, index) => `<p>${sentence}</p>${index % 5 === 4 ? '<div class="ad sponsored">Advertisement</div>' : ''}`).join('')}</article>${footer}`,
    ),
  ],
  [
    'no closing tags',
    page(
      `${nav}<article><h1>The harbour</h1>${MAIN_TEXT.map((sentence) => `<p>${sentence}`).join('\n')}</article>${footer}`,
    ),
  ],
  [
    'comments below',
    page(
      `${nav}<article>${paragraphs('p')}</article><div class="comments"><div class="comment"><p>First!</p></div><div class="comment"><p>Nice.</p></div></div>${form}${footer}`,
    ),
  ],
];

/** Kinds of page that are not articles in prose: the text to extract and the text to leave out. */
export const OTHER_PAGES: readonly { name: string; page: string; main: string[]; noise: string[] }[] = [
  {
    name: 'documentation with code and a table',
    page: page(
      `<div class="sidebar">${nav}<ul><li><a href="/install">Installation guide</a></li><li><a href="/faq">Questions</a></li></ul></div><main><h1>Tide gates</h1><p>Open a gate with <code>open()</code>, which waits until the water is level.</p><pre><code>gate.open({ wait: true });\ngate.close();</code></pre><h2>Options</h2><table><thead><tr><th>Name</th><th>Meaning</th></tr></thead><tbody><tr><td>wait</td><td>until the water is level</td></tr><tr><td>force</td><td>whatever the water does</td></tr></tbody></table><p>Errors are thrown as GateError, with the state of the gate in their details.</p></main>${footer}`,
    ),
    main: ['`open()`', 'gate.open({ wait: true });', '| wait | until the water is level |', 'GateError'],
    noise: ['Installation guide', 'Copyright 2026'],
  },
  {
    name: 'question and answers',
    page: page(
      `${nav}<div id="question"><h1>Why does the gate close at night?</h1><div class="post"><p>Our tide gate closes each night although the water is low. What could be the cause of this behaviour?</p></div></div><div id="answers"><div class="answer"><p>The timer of the gate knows the tide table of last year only; it has to be loaded anew each January.</p></div><div class="answer"><p>Check the float as well: when it is stuck, the gate believes in high water, and closes to be safe.</p></div></div>${aside}${footer}`,
    ),
    main: ['although the water is low', 'tide table of last year', 'Check the float as well'],
    noise: ['You may also like', 'Copyright 2026'],
  },
  {
    name: 'a short note',
    page: page(
      `${banner}${nav}<main><h1>Ferry cancelled</h1><p>The ferry of 18:00 does not run today.</p></main>${footer}`,
    ),
    main: ['# Ferry cancelled', 'The ferry of 18:00 does not run today.'],
    noise: ['Accept all cookies', 'News', 'Copyright 2026'],
  },
  {
    name: 'steps as a list',
    page: page(
      `${nav}<article><h1>Moor a boat</h1><p>What you need: two lines, a fender, and somebody ashore.</p><ol><li>Come in slowly, against the wind or the stream, whichever is stronger.</li><li>Hand over the bow line first and make it fast without haste.</li><li>Then the stern line; leave enough slack for the tide.</li></ol></article>${form}${footer}`,
    ),
    main: ['1. Come in slowly', 'bow line first', 'enough slack for the tide'],
    noise: ['Subscribe to our newsletter'],
  },
  {
    name: 'Japanese',
    page: page(
      `${nav}<article><h1>港</h1>${'<p>港は三つの段階で再建され、そのたびに町の暮らしが変わりました。漁船の隣には、いまフェリーと調査船が並んでいます。</p>'.repeat(6)}</article>${footer}`,
    ),
    main: ['町の暮らしが変わりました', 'フェリーと調査船'],
    noise: ['Copyright 2026'],
  },
];
