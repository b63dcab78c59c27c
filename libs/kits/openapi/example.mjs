import { buildRequest, convertDocument, parseSpec, planFrom, planJson } from '@toolfleet/openapi';

const document = parseSpec(`
openapi: 3.1.0
info: { title: Pets, version: '1' }
servers: [{ url: https://pets.example.com/v1 }]
paths:
  /pets/{id}:
    get:
      operationId: getPet
      summary: One pet by its id
      parameters:
        - { name: id, in: path, required: true, schema: { type: integer } }
        - { name: fields, in: query, explode: false, schema: { type: array, items: { type: string } } }
      responses: { 200: { description: The pet } }
`);

const { tools, refused } = convertDocument(document);
const [tool] = tools;
console.log(tool.name, tool.idempotent, refused.length);
console.log(JSON.stringify(tool.inputSchema().required));

// The plan is JSON: it can be stored, and requests are built from it without the document.
const plan = planFrom(planJson(tool.plan()));
const { method, origin, target } = buildRequest(plan, tool.baseUrl(), { id: 7, fields: ['name', 'age'] });
console.log(method, origin + target);
