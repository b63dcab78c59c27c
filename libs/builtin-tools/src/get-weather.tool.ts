import { createHash } from 'node:crypto';
import { ToolError } from '@toolfleet/contracts';
import { closed, defaulted, text, textChoice } from '@toolfleet/contracts/json-schema';
import { defineTool, ok } from './builtin-tool.js';

const CONDITIONS = ['clear', 'partly cloudy', 'cloudy', 'rain', 'thunderstorm', 'fog', 'snow'] as const;

/** `get_weather`: deterministic simulated data, labeled as such in every result. */
export const getWeather = defineTool({
  name: 'get_weather',
  description:
    'SIMULATED weather of a city: invented but stable values for demos and tests, never real observations. ' +
    'Do not present them as facts.',
  category: 'data',
  tags: ['weather', 'simulated', 'compute'],
  inputSchema: closed({
    city: text('Name of the city, e.g. "Lisbon"', { minLength: 1, maxLength: 100 }),
    unit: defaulted(textChoice(['celsius', 'fahrenheit'], 'Unit of the temperature'), 'celsius'),
  }),
  inputExamples: [{ city: 'Lisbon' }],
  annotations: { readOnlyHint: true, destructiveHint: false, openWorldHint: false },
  idempotent: true,
  timeoutSeconds: 5,
  handler({ city, unit }) {
    const name = city.normalize('NFC').trim();
    if (!/\p{L}/u.test(name))
      throw new ToolError('TOOL_ERROR', { message: `Not the name of a city: ${JSON.stringify(city)}` });
    const seed = createHash('sha256').update(name.toLowerCase()).digest();
    const celsius = (seed.readUInt16BE(0) % 41) - 8;
    // Snow only if it is cold enough.
    const condition =
      CONDITIONS[seed.readUInt8(2) % (celsius <= 2 ? CONDITIONS.length : CONDITIONS.length - 1)] ?? 'clear';
    const temperature = unit === 'celsius' ? celsius : Math.round(celsius * 1.8 + 32);
    const output = {
      city: name,
      simulated: true,
      temperature,
      unit,
      condition,
      humidity_percent: 30 + (seed.readUInt8(3) % 66),
      wind_kmh: seed.readUInt8(4) % 50,
    };
    const sign = unit === 'celsius' ? '°C' : '°F';
    return ok(output, `${name} (simulated): ${temperature} ${sign}, ${condition}`, {
      metadata: { source: 'simulated' },
    });
  },
});
