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

/** Bytes of a unit such as `kb` or `MiB`: powers of 1,000 and 1,024; undefined for no unit. */
function unitBytes(name: string): number | undefined {
  const found = /^(?:([kmgtpe])(i?))?b?$/i.exec(name);
  if (!found) return undefined;
  const [, prefix = '', binary] = found;
  return (binary ? 1_024 : 1_000) ** ' kmgtpe'.indexOf(prefix.toLowerCase() || ' ');
}

const parseBytes: Builtin = {
  arity: 1,
  run: (args) => {
    const match = /^"?([0-9]+(?:\.[0-9]+)?)([a-zA-Z]*)"?$/.exec(textAt(args, 0));
    const unit = match ? unitBytes(match[2]!) : undefined;
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
