import { ToolError, type Json } from '@toolfleet/contracts';
import { inexactNumber, inexactNumberMessage } from '@toolfleet/contracts/json-text';
import { findJsonFault } from './json-fault.js';

/** Deepest document accepted: recursion over it stays far from the end of the stack. */
const MAX_DEPTH = 500;

/** Parses JSON text. @throws ToolError TOOL_ERROR with line and column of the fault, or with a number that would lose digits */
export function parseJson(text: string, name: string): Json {
  checkDepth(text, name);
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch (error) {
    const { position, reason } = findJsonFault(text);
    const before = text.slice(0, position);
    const line = before.split('\n').length;
    const column = position - before.lastIndexOf('\n');
    throw new ToolError('TOOL_ERROR', {
      message: `${name} is not valid JSON: ${reason} at line ${line}, column ${column}`,
      details: { line, column, position },
      cause: error,
    });
  }
  const inexact = inexactNumber(text);
  if (inexact !== undefined)
    throw new ToolError('TOOL_ERROR', { message: `${name}: ${inexactNumberMessage(inexact)}` });
  return value;
}

/** Refuses nesting beyond the cap before anything recursive sees the text; linear. */
function checkDepth(text: string, name: string): void {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 92) at += 1;
      else if (code === 34) inString = false;
    } else if (code === 34) inString = true;
    else if (code === 91 || code === 123) {
      depth += 1;
      if (depth > MAX_DEPTH)
        throw new ToolError('TOOL_ERROR', { message: `${name} is nested deeper than ${MAX_DEPTH} levels` });
    } else if (code === 93 || code === 125) depth -= 1;
  }
}

/** Copy with the keys of every object in byte order. */
export function sortKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  const sorted = Object.create(null) as { [key: string]: Json };
  for (const key of Object.keys(value).toSorted()) sorted[key] = sortKeys(value[key] as Json);
  return sorted;
}
