import {
  CLIENT_CAPABILITIES_META_KEY,
  MissingRequiredClientCapabilityError,
  type ServerNotifier,
} from '@modelcontextprotocol/server';
import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { ExtraTool } from '../extras.js';
import { fixture, stringsSchema, textResult } from './fixture.js';
import { PNG_1X1, WAV_SILENCE } from './fixture-media.js';

/** Pause between two notifications of one call. */
const STEP_MS = 50;
const RECONNECT_MS = 100;

/** Content kinds, progress, logging, errors, and what a 2025 server asks its client directly. */
export function contentFixtures(clock: Clock, notify: () => ServerNotifier | undefined): ExtraTool[] {
  return [
    fixture('test_simple_text', 'One text', () => textResult('This is a simple text response for testing.')),
    fixture('test_image_content', 'One image', () => ({ content: [image] })),
    fixture('test_audio_content', 'One sound', () => ({
      content: [{ type: 'audio', data: WAV_SILENCE, mimeType: 'audio/wav' }],
    })),
    fixture('test_embedded_resource', 'One embedded resource', () => ({
      content: [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')],
    })),
    fixture('test_multiple_content_types', 'Text, image and resource', () => ({
      content: [
        { type: 'text', text: 'Multiple content types test:' },
        image,
        embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
      ],
    })),
    fixture('test_error_handling', 'Always fails', () => {
      throw new Error('This tool intentionally returns an error for testing');
    }),
    fixture('test_tool_with_progress', 'Three progress notifications', async (_args, { mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken ?? 0;
      for (const progress of [0, 50, 100]) {
        if (progress > 0) await clock.sleep(STEP_MS);
        await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
      }
      return textResult('done');
    }),
    fixture('test_tool_with_logging', 'Three log messages', async (_args, { mcpReq }) => {
      for (const line of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
        await mcpReq.log('info', line);
        await clock.sleep(STEP_MS);
      }
      return textResult('done');
    }),
    fixture('test_logging_tool', 'Logs only for clients that asked', async (_args, { mcpReq }) => {
      await mcpReq.log('info', 'a line');
      return textResult('done');
    }),
    fixture('test_reconnection', 'Closes its stream in the middle of the call', async (_args, { http }) => {
      http?.closeSSE?.();
      await clock.sleep(RECONNECT_MS);
      return textResult('reconnected');
    }),
    fixture(
      'test_sampling',
      'Asks the client`s model (2025)',
      async ({ prompt }, { mcpReq }) => {
        const answer = await mcpReq.requestSampling({
          messages: [{ role: 'user', content: { type: 'text', text: String(prompt) } }],
          maxTokens: 100,
        });
        const block = Array.isArray(answer.content) ? answer.content[0] : answer.content;
        return textResult(`LLM response: ${block?.type === 'text' ? block.text : ''}`);
      },
      { input_schema: stringsSchema('prompt') },
    ),
    fixture(
      'test_elicitation',
      'Asks the client`s person (2025)',
      async ({ message }, { mcpReq }) => {
        const { action, content } = await mcpReq.elicitInput({
          message: String(message),
          requestedSchema: {
            type: 'object',
            properties: {
              username: { type: 'string', description: "User's response" },
              email: { type: 'string', description: "User's email address" },
            },
            required: ['username', 'email'],
          },
        });
        return textResult(`User response: action=${action}, content=${JSON.stringify(content ?? {})}`);
      },
      { input_schema: stringsSchema('message') },
    ),
    fixture('test_elicitation_sep1034_defaults', 'A form with defaults of every kind', (_args, { mcpReq }) =>
      elicited(mcpReq.elicitInput({ message: 'Review the defaults', requestedSchema: DEFAULTS as never })),
    ),
    fixture('test_elicitation_sep1330_enums', 'A form with every kind of choice', (_args, { mcpReq }) =>
      elicited(mcpReq.elicitInput({ message: 'Choose', requestedSchema: ENUMS as never })),
    ),
    fixture('test_missing_capability', 'Needs a client that offers sampling', (_args, { mcpReq }) => {
      const declared = (mcpReq.envelope as JsonObject | undefined)?.[CLIENT_CAPABILITIES_META_KEY];
      if (!isJsonObject(declared) || !isJsonObject(declared['sampling'])) {
        throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } });
      }
      return textResult('sampling is declared');
    }),
    fixture('test_trigger_tool_change', 'Says that the tool list changed', () => {
      notify()?.toolsChanged();
      return textResult('announced');
    }),
    fixture('test_trigger_prompt_change', 'Says that the prompt list changed', () => {
      notify()?.promptsChanged();
      return textResult('announced');
    }),
    fixture('json_schema_2020_12_tool', 'A schema with 2020-12 vocabulary', () => textResult('ok'), {
      input_schema: SCHEMA_2020_12,
    }),
    fixture('test_x_mcp_header', 'A parameter that travels as a header', ({ region }) => textResult(String(region)), {
      input_schema: {
        type: 'object',
        properties: { region: { type: 'string', 'x-mcp-header': 'Region' } },
        required: ['region'],
      },
    }),
  ];
}

const image = { type: 'image', data: PNG_1X1, mimeType: 'image/png' };
const embedded = (uri: string, mimeType: string, text: string) => ({
  type: 'resource',
  resource: { uri, mimeType, text },
});

async function elicited(asking: Promise<{ action: string; content?: unknown }>) {
  const { action, content } = await asking;
  return textResult(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`);
}

const DEFAULTS = {
  type: 'object',
  properties: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
};

const options = ['option1', 'option2', 'option3'];
const titled = (words: string[]) => words.map((title, index) => ({ const: `value${index + 1}`, title }));
const ENUMS = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: options },
    titledSingle: { type: 'string', oneOf: titled(['First Option', 'Second Option', 'Third Option']) },
    legacyEnum: {
      type: 'string',
      enum: ['opt1', 'opt2', 'opt3'],
      enumNames: ['Option One', 'Option Two', 'Option Three'],
    },
    untitledMulti: { type: 'array', items: { type: 'string', enum: options } },
    titledMulti: { type: 'array', items: { anyOf: titled(['First Choice', 'Second Choice', 'Third Choice']) } },
  },
};

const text = { type: 'string' };
/** What the scenario wants to find again in the list, word for word. */
const SCHEMA_2020_12: JsonObject = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: text, city: text } } },
  properties: {
    name: text,
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: text,
    email: text,
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};
