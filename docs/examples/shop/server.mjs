/** The API of a small shop, for the tutorials: three operations, described by `/openapi.json`. `PORT` is 4010 unless it is set. */
import { createServer } from 'node:http';

const PORT = Number(process.env.PORT ?? 4010);

const orders = [
  { id: 1, customer: 'ann', item: 'tea', total: 12, status: 'shipped' },
  { id: 2, customer: 'bob', item: 'kettle', total: 48, status: 'paid' },
  { id: 3, customer: 'cyd', item: 'cup', total: 24, status: 'paid' },
  { id: 4, customer: 'cyd', item: 'spoon', total: 6, status: 'paid' },
];
const document = {
  openapi: '3.1.0',
  info: { title: 'My shop', version: '1.0.0' },
  servers: [{ url: `http://127.0.0.1:${PORT}` }],
  paths: {
    '/orders': {
      get: {
        operationId: 'listOrders',
        summary: 'Orders, optionally of one customer',
        parameters: [{ name: 'customer', in: 'query', schema: { type: 'string' } }],
      },
    },
    '/orders/{id}': {
      get: {
        operationId: 'getOrder',
        summary: 'One order with its status',
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }],
      },
    },
    '/orders/{id}/refund': {
      post: {
        operationId: 'refundOrder',
        summary: 'Pay money of an order back',
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }],
        requestBody: {
          required: true,
          content: {
            'application/json': {
              schema: {
                type: 'object',
                required: ['amount'],
                properties: { amount: { type: 'number', description: 'USD' } },
              },
            },
          },
        },
      },
    },
  },
};

createServer(async (request, response) => {
  const answer = (status, body) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  const { pathname, searchParams } = new URL(request.url, 'http://shop');
  if (pathname === '/openapi.json') return answer(200, document);
  const [, , id, action] = pathname.split('/');
  if (!id)
    return answer(
      200,
      orders.filter(({ customer }) => [null, customer].includes(searchParams.get('customer'))),
    );
  const order = orders.find((one) => one.id === Number(id));
  if (!order) return answer(404, { message: `No order ${id}` });
  if (action !== 'refund') return answer(200, order);
  const { amount } = JSON.parse(Buffer.concat(await request.toArray()).toString());
  answer(200, Object.assign(order, { status: 'refunded', refunded: amount }));
}).listen(PORT, '127.0.0.1');
