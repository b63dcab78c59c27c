/**
 * The checks of every client: its task, and how the outcome is judged from the observations. These are what the client showed a model,
 * printed and threw, the traffic through the tap, and how its calls ended in the fleet.
 *
 * A cell is `passed`, `not offered` when the traffic or the input of the model shows that the client does not support the feature, else
 * `failed`. Each has its evidence.
 */

/** A dot of one red pixel, as the plugin `draw_dot` and the sample server answer it. */
const RED_DOT = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ';
const STEPS_BEFORE_CANCELLATION = 250;
const SHOWN_CHARS = 160;

/** One call of a tool of each kind, and a text that only its result has. */
const KINDS = [
  ['builtin', { name: 'calculator', args: { expression: '1234*5678' } }, '7006652'],
  ['MCP', { name: 'sample_add', args: { a: 70_000, b: 77 } }, '70077'],
  ['OpenAPI', { name: 'parcels_getParcel', args: { parcel_id: 'P-1001' } }, 'in_transit'],
  ['Python', { name: 'execute_python', args: { code: 'sum(range(1000))' } }, '499500'],
];

/** Columns of the table in their order. */
export const COLUMNS = ['list', ...KINDS.map(([kind]) => kind), 'image', 'progress', 'failure', '401', 'cancel'];

const passed = (evidence) => ({ outcome: 'passed', evidence });
const notOffered = (evidence) => ({ outcome: 'not offered', evidence });
const failed = (evidence) => ({ outcome: 'failed', evidence });
/** @param {unknown} value as JSON text that fits a note */
const brief = (value) => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing');
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
};
/** The gateway's advice about a wrong key: in its 401, or where a client looks for a sign-in. */
const adviceIn = ({ status, answer }) =>
  (status === 401 && /"hint":"([^"]+)"/.exec(answer)?.slice(1)) ||
  (status === 404 && /"error_description":"([^"]+)"/.exec(answer)?.slice(1)) ||
  [];
const callsIn = (exchanges) => exchanges.filter(({ message }) => message?.method === 'tools/call');

/** Runs of one client, each with the cells that it fills. */
export const RUNS = [
  {
    steps: KINDS.map(([, step]) => step),
    judge: ({ tools, shown, error }) => {
      const listed = KINDS.filter(([, { name }]) => tools.some((tool) => tool.endsWith(name)));
      const cells = {
        list: listed.length === KINDS.length ? passed(`${tools.length} tools`) : failed(brief(error ?? tools)),
      };
      for (const [index, [kind, , text]] of KINDS.entries()) {
        const isShown = JSON.stringify(shown[index] ?? null).includes(text);
        cells[kind] = isShown ? passed(brief(shown[index])) : failed(brief(shown[index] ?? error));
      }
      return cells;
    },
  },
  {
    steps: [{ name: 'draw_dot', args: {} }],
    judge: ({ shown: [shown], pictures, error, exchanges }) => {
      if (pictures?.some((data) => String(data).includes(RED_DOT))) return { image: passed(brief(shown)) };
      if (!callsIn(exchanges).some(({ answer }) => answer.includes(RED_DOT)))
        return { image: failed(brief(error ?? shown)) };
      const isText = JSON.stringify(shown ?? null).includes(RED_DOT);
      return {
        image: notOffered(
          isText ? 'the model gets the picture as base64 in text or JSON' : `the model gets ${brief(shown)}`,
        ),
      };
    },
  },
  {
    steps: [{ name: 'sample_count_slowly', args: { steps: 8 } }],
    judge: ({ progress, shown, error, exchanges }) => {
      if (!JSON.stringify(shown).includes('counted to 8')) return { progress: failed(brief(error ?? shown)) };
      if (progress > 0) return { progress: passed(`${progress} reports`) };
      const asks = callsIn(exchanges).some(({ message }) => message.params?._meta?.progressToken !== undefined);
      return {
        progress: asks
          ? failed('it sends a progress token, and its callback got no report')
          : notOffered('it sends no progress token'),
      };
    },
  },
  {
    steps: [{ name: 'calculator', args: { expression: '1/0' } }],
    judge: ({ shown: [shown], error }) => {
      const text = JSON.stringify(shown ?? null);
      const isWhole = text.includes('Division by zero') && text.includes('Read the message and correct');
      return { failure: isWhole ? passed(brief(shown)) : failed(brief(error ?? shown)) };
    },
  },
  {
    key: 'tf_wrong',
    steps: [{ name: 'calculator', args: { expression: '1+1' } }],
    judge: ({ error = '', printed, exchanges }) => {
      const advice = exchanges.flatMap(adviceIn);
      if (advice.length === 0) return { 401: failed('the gateway did not say what to do') };
      if (advice.some((text) => error.includes(text))) return { 401: passed('in the error') };
      if (advice.some((text) => printed.includes(text))) return { 401: passed('in what it prints') };
      return { 401: notOffered(`it hides the answer of the gateway: ${brief((error || printed).split('\n')[0])}`) };
    },
  },
  {
    steps: [{ name: 'sample_count_slowly', args: { steps: STEPS_BEFORE_CANCELLATION } }],
    cancels: 'sample_count_slowly',
    judge: ({ ended, exchanges }) => {
      const [call] = callsIn(exchanges);
      const notified = exchanges.some(({ message }) => message?.method === 'notifications/cancelled');
      const said = [call?.closedEarly && 'closes the request', notified && 'sends notifications/cancelled'].filter(
        Boolean,
      );
      if (ended?.code === 'CANCELLED') return { cancel: passed(said.join(' and ')) };
      if (!call) return { cancel: failed('it made no call') };
      return {
        cancel:
          said.length > 0
            ? failed(`it ${said.join(' and ')}, and the call went on`)
            : notOffered('it does not notify the gateway when a run is stopped'),
      };
    },
  },
];
