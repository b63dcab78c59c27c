/** OpenAPI 3.1 description of the sample parcel service, as served at `/openapi.json`. */
const parcelId = {
  name: 'parcel_id',
  in: 'path',
  required: true,
  description: 'Number of the parcel, such as P-1001',
  schema: { type: 'string', pattern: '^P-[0-9]{4,}$' },
} as const;

const problem = {
  description: 'The request cannot be done',
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Problem' } } },
} as const;

const json = (schema: object, description: string) => ({ description, content: { 'application/json': { schema } } });
const parcel = { $ref: '#/components/schemas/Parcel' } as const;

export const parcelsOpenApi = {
  openapi: '3.1.0',
  info: { title: 'Parcels', version: '1.0.0', description: 'A small parcel service for the tour of toolfleet.' },
  servers: [{ url: '/' }],
  paths: {
    '/parcels': {
      get: {
        operationId: 'listParcels',
        summary: 'List parcels',
        tags: ['parcels'],
        parameters: [
          {
            name: 'status',
            in: 'query',
            description: 'Only parcels in one of these states',
            explode: false,
            schema: { type: 'array', items: { $ref: '#/components/schemas/Status' } },
          },
          { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 } },
        ],
        responses: { 200: json({ type: 'array', items: parcel }, 'Parcels, newest first') },
      },
      post: {
        operationId: 'createParcel',
        summary: 'Hand in a parcel',
        tags: ['parcels'],
        requestBody: { required: true, content: { 'application/json': { schema: parcel } } },
        responses: { 201: json(parcel, 'The parcel with its number'), 422: problem },
      },
    },
    '/parcels/{parcel_id}': {
      parameters: [parcelId],
      get: {
        operationId: 'getParcel',
        summary: 'Where a parcel is',
        tags: ['parcels'],
        responses: { 200: json(parcel, 'The parcel'), 404: problem },
      },
      delete: {
        operationId: 'cancelParcel',
        summary: 'Cancel a parcel that was not sent yet',
        tags: ['parcels'],
        responses: { 204: { description: 'Cancelled' }, 404: problem, 409: problem },
      },
    },
    '/parcels/{parcel_id}/address': {
      parameters: [parcelId],
      put: {
        operationId: 'changeAddress',
        summary: 'Send a parcel somewhere else',
        tags: ['parcels'],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Address' } } },
        },
        responses: { 200: json(parcel, 'The parcel'), 404: problem },
      },
    },
    '/parcels/{parcel_id}/label': {
      parameters: [parcelId],
      get: {
        operationId: 'getLabel',
        summary: 'The label of a parcel as a picture',
        tags: ['labels'],
        responses: { 200: { description: 'The label', content: { 'image/svg+xml': {} } }, 404: problem },
      },
    },
    '/parcels/{parcel_id}/photos': {
      parameters: [parcelId],
      post: {
        operationId: 'addPhoto',
        summary: 'Attach a photo to a parcel',
        tags: ['parcels'],
        requestBody: {
          required: true,
          content: {
            'multipart/form-data': {
              schema: {
                type: 'object',
                required: ['photo'],
                properties: { photo: { type: 'string', format: 'binary' }, caption: { type: 'string' } },
              },
            },
          },
        },
        responses: { 201: json({ type: 'object' }, 'What was stored'), 404: problem },
      },
    },
    '/quotes': {
      get: {
        operationId: 'getQuote',
        summary: 'What sending a parcel costs',
        tags: ['quotes'],
        parameters: [
          { name: 'weight_kg', in: 'query', required: true, schema: { type: 'number', exclusiveMinimum: 0 } },
          {
            name: 'size',
            in: 'query',
            style: 'deepObject',
            explode: true,
            description: 'Edges in centimetres',
            schema: {
              type: 'object',
              properties: { length: { type: 'number' }, width: { type: 'number' }, height: { type: 'number' } },
            },
          },
          { name: 'X-Currency', in: 'header', schema: { enum: ['EUR', 'USD'], default: 'EUR' } },
        ],
        responses: { 200: json({ $ref: '#/components/schemas/Quote' }, 'The price'), 422: problem },
      },
    },
  },
  components: {
    schemas: {
      Status: { enum: ['announced', 'in_transit', 'delivered'] },
      Address: {
        type: 'object',
        required: ['name', 'city'],
        properties: { name: { type: 'string' }, street: { type: 'string' }, city: { type: 'string' } },
      },
      Parcel: {
        type: 'object',
        required: ['id', 'status', 'to', 'weight_kg'],
        properties: {
          id: { type: 'string', readOnly: true },
          status: { $ref: '#/components/schemas/Status', readOnly: true },
          to: { $ref: '#/components/schemas/Address' },
          weight_kg: { type: 'number', exclusiveMinimum: 0 },
          note: { type: ['string', 'null'] },
          parts: { type: 'array', items: { $ref: '#/components/schemas/Parcel' }, description: 'Parcels inside it' },
        },
      },
      Quote: {
        type: 'object',
        required: ['price', 'currency'],
        properties: { price: { type: 'number' }, currency: { type: 'string' }, days: { type: 'integer' } },
      },
      Problem: { type: 'object', required: ['error'], properties: { error: { type: 'string' } } },
    },
  },
};
