/** `@toolfleet/contracts/json-text`: JSON texts from outside, as services read them. */
export { bodyError } from './errors/tool-error.js';
export {
  BODY_EXCESS,
  bodyExcess,
  excessOfPrefix,
  inexactNumber,
  inexactNumberMessage,
  isNestedTooDeep,
  type JsonFault,
  type JsonReading,
  MAX_BODY_DEPTH,
  MAX_BODY_NODES,
  parseExact,
  readJson,
  resultExcess,
  shapeExcess,
  shapeOfText,
} from '@toolfleet/base/json-text';
