/** A picture with a text, like the answers of most tools that draw. */
const RED_DOT = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==';

export default ({ defineTool, ok }) =>
  defineTool({
    name: 'draw_dot',
    description: 'Draws a red dot',
    category: 'data',
    rateLimit: 0,
    idempotent: true,
    inputSchema: { type: 'object', properties: {} },
    handler: () =>
      ok(null, 'a red dot', {
        content: [
          { type: 'text', text: 'a red dot' },
          { type: 'image', mimeType: 'image/png', data: RED_DOT },
        ],
      }),
  });
