/** A tool with an interceptor of its own. */
export default ({ defineTool, ok }) =>
  defineTool({
    name: 'probe_intercepted',
    description: 'Returns what its interceptor changed.',
    category: 'custom',
    inputSchema: { type: 'object', properties: {} },
    interceptors: [
      async (_call, next) => {
        await next();
        return ok({ seen: 'by the interceptor' }, 'intercepted');
      },
    ],
    handler: () => ok({ seen: 'by the handler' }, 'handled'),
  });
