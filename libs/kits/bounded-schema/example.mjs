import { ArgumentReader, compileSchema } from '@toolfleet/bounded-schema';

const schema = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 1, default: 3 } },
  required: ['city'],
};

// Arguments as language models send them: numbers in strings, unknown names, null for absent.
const reader = new ArgumentReader(schema, { toolName: 'get_forecast' });
const good = reader.read({ city: 'Oslo', days: '5', note: 'x' });
console.log(good.arguments, good.coercions, good.dropped);

const bad = reader.read({ days: 0 });
console.log(bad.faults.map(({ path, kind }) => `${path} ${kind}`));

// A pattern that would backtrack for years runs in linear time.
const { check } = compileSchema({ type: 'string', pattern: '^(a+)+$' });
console.log(check(`${'a'.repeat(100_000)}!`));
