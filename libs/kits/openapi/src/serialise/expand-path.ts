import { CodedError, type Json } from '@toolfleet/base';
import { toExactJson } from '@toolfleet/base/json-text';
import type { OperationPlan, ParameterPlan } from '../plan.js';
import { encodePathLiteral, encodePathReserved, encodeQueryLiteral, encodeUnreserved } from './serialise-parameter.js';
import { pathSegment, toText } from './serialise-parameter.js';

/** Names of the expressions of a path template, in order: `/a/{b}/{c}` gives `b`, `c`. */
export function templateNames(path: string): string[] {
  return [...path.matchAll(/\{([^{}]*)\}/g)].map((match) => match[1] as string);
}

/**
 * Expands a path template. A value is refused when it leaves a segment empty, `.` or `..`: no encoding can protect
 * those, every server and proxy removes them (RFC 3986 section 5.2.4), and the call would reach another operation.
 */
export function expandPath(
  plan: OperationPlan,
  values: ReadonlyMap<ParameterPlan, Json>,
): { path: string; query: string[] } {
  const [template = '', ...rest] = plan.path.split('?');
  const byName = new Map<string, ParameterPlan>();
  for (const parameter of plan.parameters) if (parameter.in === 'path') byName.set(parameter.name, parameter);

  const expand = (text: string, literal: (text: string) => string): string => {
    let out = '';
    let end = 0;
    for (const match of text.matchAll(/\{([^{}]*)\}/g)) {
      out += literal(text.slice(end, match.index)) + expression(match[1] as string, byName, values);
      end = match.index + match[0].length;
    }
    return out + literal(text.slice(end));
  };

  const segments = template.replace(/^\/+/, '').split('/');
  const path = segments
    .map((segment) => {
      const names = templateNames(segment);
      const text = expand(segment, encodePathLiteral);
      if (names.length > 0) assertSafe(text, names, byName);
      return `/${text}`;
    })
    .join('');
  const literalQuery = rest.join('?');
  return { path, query: literalQuery === '' ? [] : [expand(literalQuery, encodeQueryLiteral)] };
}

function expression(
  name: string,
  byName: ReadonlyMap<string, ParameterPlan>,
  values: ReadonlyMap<ParameterPlan, Json>,
): string {
  const parameter = byName.get(name);
  const value = parameter && values.get(parameter);
  if (parameter === undefined || value === undefined) return '';
  if (parameter.content !== undefined) {
    return encodeUnreserved(/json/i.test(parameter.content) ? toExactJson(value) : toText(value));
  }
  const reserved = name.startsWith('+');
  return pathSegment(reserved ? name.slice(1) : name, value, parameter, reserved ? encodePathReserved : undefined);
}

/** A reserved expansion (`{+path}`) may hold several segments; each of them is checked. */
function assertSafe(text: string, names: readonly string[], byName: ReadonlyMap<string, ParameterPlan>): void {
  for (const segment of text.split('/')) {
    const plain = segment.replace(/%2e/gi, '.');
    if (plain !== '' && plain !== '.' && plain !== '..') continue;
    const argument = byName.get(names[0] as string)?.argument ?? (names[0] as string);
    throw new CodedError('ARGUMENTS_INVALID', {
      message: `PATH_PARAM_UNSAFE: '${argument}' would make the path segment "${plain}", which cannot be sent`,
      details: { argument, reason: 'PATH_PARAM_UNSAFE' },
    });
  }
}
