/** A tool with its own interceptor. */
export default ({ defineTool, ok }) =>
  defineTool({
    name: 'probe_intercepted',
    description: 'Returns what its interceptor changed.',
    category: 'custom',
    inputSchema: { type: 'object', properties: {} },
    interceptors: [
      async (args, _run, next) => {
        const outcome = await next(args);
        return ok({ ...outcome.output, seen: 'by the interceptor' }, 'intercepted');
      },
    ],
    handler: () => ok({ seen: 'by the handler' }, 'handled'),
  });
