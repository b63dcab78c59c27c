import { isArray, isObject, getField, objectKeys, RegoSet, type RegoValue } from '../value.js';
import { valueFault } from './operands.js';

const VERB = /%([-+0 #]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])/g;

/** Go's verbs `%v %s %d %f %x %X %t %q`, with width and precision. Others are a fault: a message must not say something else. */
export function sprintf(format: string, args: readonly RegoValue[]): string {
  let used = 0;
  const text = format.replace(
    VERB,
    (_, flags: string, width: string | undefined, precision: string | undefined, verb: string) => {
      if (verb === '%') return '%';
      const arg = args[used++];
      if (arg === undefined) throw valueFault('sprintf: too few arguments');
      return pad(render(verb, arg, precision === undefined ? undefined : Number(precision)), flags, Number(width ?? 0));
    },
  );
  if (used < args.length) throw valueFault('sprintf: too many arguments');
  return text;
}

function render(verb: string, arg: RegoValue, precision: number | undefined): string {
  const isNumber = typeof arg === 'number' || typeof arg === 'bigint';
  switch (verb) {
    case 'v':
      return plain(arg);
    case 's':
      return precision === undefined ? plain(arg) : [...plain(arg)].slice(0, precision).join('');
    case 'd':
      if (isNumber && (typeof arg === 'bigint' || Number.isInteger(arg))) return String(arg);
      break;
    case 'f':
      if (isNumber) return Number(arg).toFixed(precision ?? 6);
      break;
    case 'x':
      if (typeof arg === 'bigint' || Number.isInteger(arg)) return (arg as number).toString(16);
      if (typeof arg === 'string') return Buffer.from(arg).toString('hex');
      break;
    case 'X':
      return render('x', arg, precision).toUpperCase();
    case 't':
      if (typeof arg === 'boolean') return String(arg);
      break;
    case 'q':
      if (typeof arg === 'string') return JSON.stringify(arg);
      break;
  }
  throw valueFault(`sprintf: %${verb} is not supported for this argument`);
}

/** A string unchanged, any other value in Rego syntax. */
function plain(value: RegoValue): string {
  return typeof value === 'string' ? value : formatValue(value);
}

/** A value in Rego's own notation. */
export function formatValue(value: RegoValue): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint') return digits(value);
  if (typeof value !== 'object' || value === null) return String(value);
  if (isArray(value)) return `[${value.map(formatValue).join(', ')}]`;
  if (value instanceof RegoSet) return value.size === 0 ? 'set()' : `{${value.values().map(formatValue).join(', ')}}`;
  if (!isObject(value)) return '';
  return `{${objectKeys(value)
    .map((key) => `${formatValue(key)}: ${formatValue(getField(value, key)!)}`)
    .join(', ')}}`;
}

/** Integers that end in 22 zeros or more are written with an exponent, as a policy would write them. */
function digits(value: bigint): string {
  return String(value).replace(/0{22,}$/, (zeros) => `e${zeros.length}`);
}

function pad(text: string, flags: string, width: number): string {
  if (width > 1_000) throw valueFault('sprintf: width is too large');
  if (flags.includes('-')) return text.padEnd(width);
  const negative = text.startsWith('-');
  return flags.includes('0')
    ? (negative ? '-' : '') + text.slice(negative ? 1 : 0).padStart(width - (negative ? 1 : 0), '0')
    : text.padStart(width);
}
