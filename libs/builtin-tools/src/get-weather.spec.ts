import { describe, expect, it } from 'vitest';
import type { JsonObject } from '@toolfleet/contracts';
import { getWeather } from './get-weather.tool.js';
import { runTool } from '../spec/run-tool.fixture.js';

describe('get_weather', () => {
  it('is deterministic and labeled as simulated', async () => {
    const first = await runTool(getWeather, { city: 'Lisbon' });
    expect(first).toEqual(
      await runTool(getWeather, { city: ' lisbon' }).then((second) => ({
        ...second,
        output: { ...(second.output as JsonObject), city: 'Lisbon' },
        text: first.text,
      })),
    );
    expect(first.output).toMatchObject({ simulated: true, city: 'Lisbon', unit: 'celsius' });
    expect(first.text).toContain('simulated');
    await expect(runTool(getWeather, { city: '123' })).rejects.toThrow(/Not the name/);
  });
});
