import { type RegoTypeName, typeName, type RegoValue } from '../value.js';
import { RegoError } from '../rego-error.js';
import { parseNumber } from '../parse-term.js';
import { type Builtin, normal, textAt, typeFault, valueFault } from './operands.js';

const is = (type: RegoTypeName): Builtin => ({ arity: 1, run: ([value]) => typeName(value!) === type });

const toNumber: Builtin = {
  arity: 1,
  run: ([value]) => {
    if (value === null || value === false) return 0;
    if (value === true) return 1;
    if (typeof value === 'number' || typeof value === 'bigint') return value;
    if (typeof value !== 'string') throw typeFault(1, 'one of {null, boolean, number, string}', value!);
    if (/^[+-]?(?:nan|inf|infinity)$/i.test(value))
      throw new RegoError('type_error', 'operand 1 must be a number that is finite');
    if (!/^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/.test(value))
      throw valueFault('invalid syntax of a number');
    return parseNumber(value) ?? outOfRange();
  },
};

function outOfRange(): never {
  throw valueFault('number out of range');
}

const BYTE_UNITS: Record<string, number> = {
  '': 1,
  b: 1,
  k: 1e3,
  kb: 1e3,
  ki: 2 ** 10,
  kib: 2 ** 10,
  m: 1e6,
  mb: 1e6,
  mi: 2 ** 20,
  mib: 2 ** 20,
  g: 1e9,
  gb: 1e9,
  gi: 2 ** 30,
  gib: 2 ** 30,
  t: 1e12,
  tb: 1e12,
  ti: 2 ** 40,
  tib: 2 ** 40,
  p: 1e15,
  pb: 1e15,
  pi: 2 ** 50,
  pib: 2 ** 50,
  e: 1e18,
  eb: 1e18,
  ei: 2 ** 60,
  eib: 2 ** 60,
};

const parseBytes: Builtin = {
  arity: 1,
  run: (args) => {
    const match = /^"?([0-9]+(?:\.[0-9]+)?)([a-zA-Z]*)"?$/.exec(textAt(args, 0));
    const unit = match ? BYTE_UNITS[match[2]!.toLowerCase()] : undefined;
    if (!match || unit === undefined) throw valueFault('units.parse_bytes: could not parse amount');
    const bytes = Math.trunc(Number(match[1]) * unit);
    return normal(Number.isSafeInteger(bytes) ? bytes : BigInt(bytes));
  },
};

function decodeBase64(text: string): RegoValue {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text))
    throw valueFault('illegal base64 data');
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Buffer.from(text, 'base64'));
}

/** Types, conversions and time. */
export const TYPE_BUILTINS: Record<string, Builtin> = {
  is_array: is('array'),
  is_boolean: is('boolean'),
  is_null: is('null'),
  is_number: is('number'),
  is_object: is('object'),
  is_set: is('set'),
  is_string: is('string'),
  type_name: { arity: 1, run: ([value]) => typeName(value!) },
  to_number: toNumber,
  'units.parse_bytes': parseBytes,
  'base64.decode': { arity: 1, run: (args) => decodeBase64(textAt(args, 0)) },
  'base64.encode': { arity: 1, run: (args) => Buffer.from(textAt(args, 0)).toString('base64') },
  /** Nanoseconds since the epoch, the same for the whole evaluation. */
  'time.now_ns': { arity: 0, run: (_, { nowMs }) => normal(BigInt(Math.trunc(nowMs)) * 1_000_000n) },
};
