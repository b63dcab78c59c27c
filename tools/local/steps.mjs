/**
 * Progress of `npm start` and `npm test`: each step prints its name and its time. A step of more than two seconds
 * shows that it lives: a spinner on a terminal, a line now and then in a log.
 */
const SHOWN_AFTER_MS = 2_000;
const LOG_EVERY_MS = 10_000;
const FRAME_MS = 100;
const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/** Steps under way: start and missing part, by title. */
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
 * @param {string} title such as "building"
 * @param {(onMissing: OnMissing) => Promise<T>} work names with `onMissing` the missing part, shown as long as it lasts
 * @returns {Promise<T>} the result of `work`; its error is thrown on
 */
export async function step(title, work) {
  const startedAt = performance.now();
  const missing = new Map();
  running.set(title, { startedAt, missing });
  const stopShowing = process.stdout.isTTY ? spin() : report(title);
  let outcome = 'failed after ';
  try {
    const result = await work((part, what) => (what ? missing.set(part, what) : missing.delete(part)));
    outcome = '';
    return result;
  } finally {
    running.delete(title);
    stopShowing();
    say(`${title}: ${outcome}${seconds(startedAt)}`);
  }
}

/**
 * Repeats `look` until nothing is missing. It ends on a failure and never on a clock: a busy machine is slow, not broken.
 * @callback OnMissing receives the missing thing of a part, or undefined once it lacks nothing
 * @param {string} part
 * @param {string} [what]
 *
 * @param {string} part shown with the missing thing
 * @param {() => Promise<string | undefined>} look names the missing thing
 * @param {{failure: () => Error | undefined, onMissing?: OnMissing, everyMs?: number}} options `failure`: why it will be missing for good
 * @throws the failure
 */
export async function untilComplete(part, look, { failure, onMissing = () => {}, everyMs = 100 }) {
  for (;;) {
    const error = failure();
    if (error) throw error;
    const missing = await look();
    onMissing(part, missing);
    if (!missing) return;
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

function progress(title) {
  const { startedAt, missing } = running.get(title);
  const waits = [...missing].map(([part, what]) => `${part} (${what})`).join(', ');
  return `${seconds(startedAt)}${waits && `, waiting for ${waits}`}`;
}

function seconds(since) {
  return `${((performance.now() - since) / 1_000).toFixed(1)} s`;
}

function report(title) {
  const show = () => say(`${title} … ${progress(title)}`);
  let timer = setTimeout(() => {
    show();
    timer = setInterval(show, LOG_EVERY_MS);
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
  const steps = [...running.keys()].map((title) => `${title} ${progress(title)}`).join(', ');
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
