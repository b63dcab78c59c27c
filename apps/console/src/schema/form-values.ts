import type { Json, JsonObject } from '@toolfleet/client';
import { objectOf, textOf, type Field } from './form-model.js';

/** Texts of a form by field name. */
export type FormTexts = Readonly<Record<string, string>>;

/** What a form says: arguments to send, or what is wrong by field. The gateway checks everything again. */
export type FormReading = { arguments: JsonObject } | { faults: Record<string, string> };

/** The texts a fresh form begins with. */
export function initialTexts(fields: readonly Field[]): FormTexts {
  return Object.fromEntries(fields.map((field) => [field.name, field.initial]));
}

/** The texts that stand for given arguments, for examples and for a way back from the JSON editor. */
export function textsFor(fields: readonly Field[], args: JsonObject): FormTexts {
  return Object.fromEntries(
    fields.map(({ name, input }) => [name, args[name] === undefined ? '' : textOf(args[name], input)]),
  );
}

/** Empty optional fields are left out; everything else becomes a value of its field's kind. */
export function readForm(fields: readonly Field[], texts: FormTexts): FormReading {
  const args: [string, Json][] = [];
  const faults: [string, string][] = [];
  for (const field of fields) {
    const text = texts[field.name] ?? '';
    const isEmpty = text.trim() === '';
    if (isEmpty && !field.required) continue;
    const read = isEmpty ? { fault: 'is required' } : valueOf(field, text);
    if ('fault' in read) faults.push([field.name, read.fault]);
    else args.push([field.name, read.value]);
  }
  // From entries: names come from schemas of others, and one of them may be `__proto__`.
  return faults.length > 0 ? { faults: Object.fromEntries(faults) } : { arguments: Object.fromEntries(args) };
}

/** Arguments written as JSON. */
export function readJson(text: string): FormReading {
  try {
    const value = JSON.parse(text) as Json;
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { arguments: objectOf(value) };
    return { faults: { '': 'must be a JSON object' } };
  } catch (error) {
    return { faults: { '': `is no JSON: ${(error as Error).message}` } };
  }
}

function valueOf({ input }: Field, text: string): { value: Json } | { fault: string } {
  switch (input.kind) {
    case 'text':
      return { value: text };
    case 'boolean':
      return { value: text === 'true' };
    case 'choice': {
      const option = input.options[Number(text)];
      return option === undefined ? { fault: 'is none of the choices' } : { value: option };
    }
    case 'number': {
      const value = Number(text);
      if (!Number.isFinite(value)) return { fault: 'is no number' };
      if (input.whole && !Number.isInteger(value)) return { fault: 'must be a whole number' };
      if (input.whole && !Number.isSafeInteger(value)) return { fault: 'is too large to be exact' };
      if (input.min !== undefined && value < input.min) return { fault: `must be at least ${input.min}` };
      if (input.max !== undefined && value > input.max) return { fault: `must be at most ${input.max}` };
      return { value };
    }
    case 'json':
      try {
        return { value: JSON.parse(text) as Json };
      } catch (error) {
        return { fault: `is no JSON: ${(error as Error).message}` };
      }
  }
}
