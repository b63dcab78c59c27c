/**
 * Progress of `npm start` and `npm test`: each step prints what it does and how long it took. A step of more than two seconds
 * shows that it lives: a spinner on a terminal, a line now and then in a log.
 */
const SHOWN_AFTER_MS = 2_000;
const LOG_EVERY_MS = 10_000;
const FRAME_MS = 100;
const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/** Steps under way: title and start. */
const running = new Map();
let frame = 0;
let spinner;

/** Prints a line. */
export function say(line) {
  print(process.stdout, line);
}

/** Prints a line on standard error. */
export function complain(line) {
  print(process.stderr, line);
}

/**
 * Runs a step. Steps may run side by side.
 * @template T
 * @param {string} title what the step does: "building"
 * @param {() => Promise<T>} work
 * @returns {Promise<T>} the result of `work`; its error is thrown on
 */
export async function step(title, work) {
  const startedAt = performance.now();
  running.set(title, startedAt);
  const stopShowing = process.stdout.isTTY ? spin() : report(title);
  let outcome = 'failed after ';
  try {
    const result = await work();
    outcome = '';
    return result;
  } finally {
    running.delete(title);
    stopShowing();
    say(`${title}: ${outcome}${seconds(startedAt)}`);
  }
}

function seconds(since) {
  return `${((performance.now() - since) / 1_000).toFixed(1)} s`;
}

function report(title) {
  let timer = setTimeout(() => {
    say(`${title} …`);
    timer = setInterval(() => say(`${title} … ${seconds(running.get(title))}`), LOG_EVERY_MS);
  }, SHOWN_AFTER_MS);
  return () => clearInterval(timer);
}

function spin() {
  spinner ??= setInterval(draw, FRAME_MS);
  return () => {
    erase();
    if (running.size > 0) return;
    clearInterval(spinner);
    spinner = undefined;
  };
}

function draw() {
  frame = (frame + 1) % FRAMES.length;
  const steps = [...running].map(([title, startedAt]) => `${title} ${seconds(startedAt)}`).join(', ');
  // One line at most: a line that wraps could not be erased.
  process.stdout.write(`\r\x1b[K${`${FRAMES[frame]} ${steps}`.slice(0, (process.stdout.columns ?? 80) - 1)}`);
}

function erase() {
  if (spinner) process.stdout.write('\r\x1b[K');
}

function print(stream, line) {
  erase();
  stream.write(`toolfleet: ${line}\n`);
}
