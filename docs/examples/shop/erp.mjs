/** Writes the OpenAPI document of a large system: 100 kinds of records with five operations each. The shop answers them all. */
const [NOUNS, AREAS] = [
  'invoice order contract supplier warehouse shipment employee asset project ticket'.split(' '),
  'sales purchasing finance logistics personnel quality legal service planning production'.split(' '),
];
const id = { name: 'id', in: 'path', required: true, schema: { type: 'integer' } };
const paths = {};
for (const area of AREAS)
  for (const noun of NOUNS) {
    const name = `${area}_${noun}`;
    const operation = (verb, summary, parameters = []) => ({ operationId: `${verb}_${name}`, summary, parameters });
    paths[`/${area}/${noun}s`] = {
      get: operation('list', `All ${noun}s of ${area}`),
      post: operation('create', `A new ${noun} of ${area}`),
    };
    paths[`/${area}/${noun}s/{id}`] = {
      get: operation('get', `One ${noun} of ${area} by its number`, [id]),
      patch: operation('change', `Changes a ${noun} of ${area}`, [id]),
      delete: operation('delete', `Removes a ${noun} of ${area} permanently`, [id]),
    };
  }
const servers = [{ url: `http://127.0.0.1:${process.env.PORT ?? 4010}` }];
process.stdout.write(
  `${JSON.stringify({ openapi: '3.1.0', info: { title: 'ERP', version: '1.0.0' }, servers, paths })}\n`,
);
