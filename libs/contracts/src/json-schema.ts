/**
 * JSON Schemas that know the type of their values, so that a shape is written once: readers, documents and types are derived from
 * it. `text()` describes a string, `record({ id: text(), note: maybe(text()) })` an object of type `{ id: string; note?: string }`,
 * and `Value<typeof schema>` is that type.
 */
import type { Json, JsonObject } from '@toolfleet/base/json';

declare const VALUE: unique symbol;
const NAME = Symbol('name');

/** JSON Schema 2020-12 of values of type `T`. */
export interface Schema<out T = unknown> extends JsonObject {
  readonly [VALUE]?: T;
}

/** A member of a record that may be absent. */
export interface Optional<out T = unknown> {
  readonly optional: true;
  readonly schema: Schema<T>;
}

/** The members of a record by name. */
type Fields = Readonly<Record<string, Schema | Optional>>;

/** The type of the values of a schema. */
export type Value<S> = S extends Optional<infer T> ? T : S extends Schema<infer T> ? T : never;

/** The type of an object with these members. */
export type RecordOf<F> = Flat<
  { -readonly [K in keyof F as F[K] extends Optional ? never : K]: Value<F[K]> } & {
    -readonly [K in keyof F as F[K] extends Optional ? K : never]?: Value<F[K]>;
  }
>;
/** An intersection written as one object type. */
export type Flat<T> = { [K in keyof T]: T[K] };

type Keywords = Readonly<Record<string, Json>>;
const described = <T>(description: string | undefined, keywords: Keywords): Schema<T> =>
  description === undefined ? keywords : { ...keywords, description };

/** @param keywords of JSON Schema, such as `{ maxLength: 64 }`; the same for numbers */
export const text = <T extends string = string>(description?: string, keywords?: Keywords): Schema<T> =>
  described(description, { type: 'string', ...keywords });
/** An instant in ISO 8601. */
export const instant = (description?: string): Schema<string> => text(description, { format: 'date-time' });
export const integer = (description?: string, keywords?: Keywords): Schema<number> =>
  described(description, { type: 'integer', ...keywords });
export const number = (description?: string, keywords?: Keywords): Schema<number> =>
  described(description, { type: 'number', ...keywords });
export const flag = (description?: string): Schema<boolean> => described(description, { type: 'boolean' });
export const choice = <const V extends string | boolean>(values: readonly V[], description?: string): Schema<V> =>
  described(description, { enum: [...values] });
/** One of these texts, with its type: models follow it better. */
export const textChoice = <const V extends string>(values: readonly V[], description?: string): Schema<V> =>
  text(description, { enum: [...values] });
export const list = <T>(items: Schema<T>, description?: string, keywords?: Keywords): Schema<T[]> =>
  described(description, { type: 'array', items, ...keywords });
/** An object with any names and values of one type. */
export const dictionary = <T>(values: Schema<T>, description?: string): Schema<Record<string, T>> =>
  described(description, { type: 'object', additionalProperties: values });
export const object = (description?: string): Schema<JsonObject> => described(description, { type: 'object' });
/** An object of type `T`. Its sender is trusted with the members: the schema does not check them. */
export const objectOf = <T extends object>(): Schema<T> => ({ type: 'object' });
export const anything = (description?: string): Schema<Json> => described(description, {});
export const nullable = <T>(schema: Schema<T>, description?: string): Schema<T | null> =>
  described(description, { anyOf: [schema, { type: 'null' }] });

/** The body of a message that may be empty (null for a schema). */
export const orEmpty = <T>(schema: Schema<T>): Schema<T | null> => ({ ...schema, type: ['object', 'null'] });

/** Marks a member of a record that may be absent. */
export const maybe = <T>(schema: Schema<T>): Optional<T> => ({ optional: true, schema });

/** A member that its sender may leave out; readers of arguments fill in the value, so that receivers always find one. */
export const defaulted = <T extends Json>(schema: Schema<T>, value: T): Schema<T> => ({
  ...maybe({ ...schema, default: value }),
});

/** An object with these members; receivers ignore members of later versions. */
export function record<F extends Fields>(fields: F, description?: string): Schema<RecordOf<F>> {
  const members = Object.entries(fields);
  const required = members.flatMap(([name, member]) => (isOptional(member) ? [] : [name]));
  const properties = Object.fromEntries(
    members.map(([name, member]) => [name, isOptional(member) ? member.schema : member]),
  );
  return described(description, { type: 'object', properties, ...(required.length > 0 ? { required } : {}) });
}

/** An object with these members and no others. */
export const closed = <F extends Fields>(fields: F, description?: string): Schema<RecordOf<F>> => ({
  ...record(fields, description),
  additionalProperties: false,
});

function isOptional(member: Schema | Optional): member is Optional {
  return member['optional'] === true && member['schema'] !== undefined;
}

/** Gives a schema a name, under which documents list it once. */
export const named = <T>(name: string, schema: Schema<T>): Schema<T> => Object.assign({ ...schema }, { [NAME]: name });

/** The name of a schema; undefined if it has none. */
export const nameOf = (schema: object): string | undefined => (schema as { [NAME]?: string })[NAME];
