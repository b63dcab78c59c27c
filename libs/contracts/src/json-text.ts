/** `@toolfleet/contracts/json-text`: JSON texts from outside, as services read them. */
import type { JsonFault } from '@toolfleet/base/json-text';
import { ToolError } from './errors/tool-error.js';

export {
  asDoubles,
  BODY_EXCESS,
  bodyExcess,
  excessOfPrefix,
  inexactNumberMessage,
  isNestedTooDeep,
  type JsonFault,
  type JsonReading,
  MAX_BODY_DEPTH,
  MAX_BODY_NODES,
  mayBeInexact,
  parseExact,
  type ParsedText,
  readJson,
  readOwnJson,
  resultExcess,
  shapeExcess,
  shapeOfText,
  toExactJson,
  toInteger,
  toMarked,
  unmarked,
} from '@toolfleet/base/json-text';

/** The error of a body that was not read. */
export function bodyError({ fault, message }: JsonFault): ToolError {
  const isTooLarge = fault === 'nodes' || fault === 'names';
  return new ToolError(isTooLarge ? 'PAYLOAD_TOO_LARGE' : 'REQUEST_INVALID', { message });
}
