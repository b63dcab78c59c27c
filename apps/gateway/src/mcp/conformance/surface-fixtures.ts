import {
  fromJsonSchema,
  inputRequired,
  ResourceTemplate,
  type GetPromptResult,
  type McpServer,
} from '@modelcontextprotocol/server';
import type { JsonObject } from '@toolfleet/contracts';
import { PNG_1X1 } from './fixture-media.js';
import { answered, form } from './input-fixtures.js';

const argumentsSchema = (properties: Record<string, string>) =>
  fromJsonSchema<Record<string, string>>({
    type: 'object',
    properties: Object.fromEntries(
      Object.entries(properties).map(([name, description]) => [name, { type: 'string', description }]),
    ),
    required: Object.keys(properties),
  } as JsonObject as never);

const saying = (...blocks: object[]): GetPromptResult =>
  ({ messages: blocks.map((content) => ({ role: 'user', content })) }) as GetPromptResult;
const words = (text: string) => ({ type: 'text', text });

/** Prompts, resources, completion and subscriptions; the fleet itself has none of them. */
export function installSurface(server: McpServer, era: 'legacy' | 'modern'): void {
  server.registerPrompt('test_simple_prompt', { description: 'One message' }, () =>
    saying(words('This is a simple prompt for testing.')),
  );
  server.registerPrompt(
    'test_prompt_with_arguments',
    {
      description: 'A prompt with required arguments',
      argsSchema: argumentsSchema({ arg1: 'First test argument', arg2: 'Second test argument' }),
    },
    ({ arg1, arg2 }) => saying(words(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  );
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    {
      description: 'A prompt with a resource',
      argsSchema: argumentsSchema({ resourceUri: 'URI of the resource to embed' }),
    },
    ({ resourceUri }) =>
      saying(
        {
          type: 'resource',
          resource: { uri: resourceUri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' },
        },
        words('Please process the embedded resource above.'),
      ),
  );
  server.registerPrompt('test_prompt_with_image', { description: 'A prompt with an image' }, () =>
    saying({ type: 'image', data: PNG_1X1, mimeType: 'image/png' }, words('Please analyze the image above.')),
  );
  server.registerPrompt('test_input_required_result_prompt', { description: 'Asks before it answers' }, (context) => {
    const given = answered(context, 'user_context', 'context');
    if (given !== undefined) return saying(words(`Use this context: ${given}`));
    return inputRequired({
      inputRequests: { user_context: form('What context should the prompt use?', 'context') },
    }) as never;
  });

  const resource = (name: string, uri: string, mimeType: string, content: { text: string } | { blob: string }) =>
    server.registerResource(name, uri, { description: name, mimeType }, () => ({
      contents: [{ uri, mimeType, ...content }],
    }));
  resource('Static Text Resource', 'test://static-text', 'text/plain', {
    text: 'This is the content of the static text resource.',
  });
  resource('Static Binary Resource', 'test://static-binary', 'image/png', { blob: PNG_1X1 });
  resource('Watched Resource', 'test://watched-resource', 'text/plain', { text: 'Watched resource content' });
  resource('Example Resource', 'test://example-resource', 'text/plain', { text: 'Example' });
  resource('Mixed Content', 'test://mixed-content-resource', 'application/json', {
    text: '{"test":"data","value":123}',
  });
  server.registerResource(
    'Resource Template',
    new ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { description: 'A resource template with parameter substitution', mimeType: 'application/json' },
    (uri, { id }) => ({
      contents: [
        {
          uri: uri.href,
          mimeType: 'application/json',
          text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${String(id)}` }),
        },
      ],
    }),
  );

  server.server.setRequestHandler('completion/complete', () => ({
    completion: { values: ['paris', 'park', 'party'], total: 3, hasMore: false },
  }));
  if (era === 'legacy') {
    server.server.setRequestHandler('resources/subscribe', () => ({}));
    server.server.setRequestHandler('resources/unsubscribe', () => ({}));
  }
}
