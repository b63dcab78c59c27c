/**
 * Tools that are the answer to none of the labelled queries, as a large fleet has them: operations of business systems, named and
 * described as OpenAPI documents and MCP servers do it. They share verbs and common words (file, message, status, price, report,
 * phone) with the labelled tools, so that a ranking has to look at the rest. Deterministic.
 */

/** Systems by domain, and what they keep: noun, then fields. */
const DOMAINS = {
  logistics: {
    systems: ['cargonaut', 'portline'],
    records: {
      shipment: ['carrier', 'weight_kg', 'status'],
      container: ['seal_number', 'yard', 'size'],
      'customs declaration': ['hs_code', 'value', 'office'],
      'delivery slot': ['depot', 'window_start', 'window_end'],
      'freight rate': ['lane', 'price', 'valid_until'],
      driver: ['licence', 'phone', 'depot'],
      vehicle: ['plate', 'capacity', 'location'],
    },
  },
  warehouse: {
    systems: ['stockpile', 'bindery'],
    records: {
      bin: ['aisle', 'level', 'capacity'],
      'pick list': ['order', 'picker', 'lines'],
      pallet: ['height', 'weight_kg', 'bin'],
      'stock count': ['sku', 'counted', 'expected'],
      'goods receipt': ['supplier', 'lines', 'received_at'],
      sku: ['name', 'barcode', 'price'],
      'packing station': ['operator', 'printer', 'queue'],
    },
  },
  clinic: {
    systems: ['medichart', 'wardbook'],
    records: {
      patient: ['birth_date', 'phone', 'language'],
      prescription: ['drug', 'dose', 'refills'],
      'lab result': ['test', 'value', 'unit'],
      referral: ['specialist', 'reason', 'urgency'],
      'bed assignment': ['ward', 'bed', 'since'],
      'consent form': ['version', 'signed_at', 'file'],
      vaccination: ['vaccine', 'batch', 'date'],
    },
  },
  insurance: {
    systems: ['claimwell', 'polistar'],
    records: {
      claim: ['policy', 'amount', 'status'],
      policy: ['holder', 'premium', 'expires'],
      'damage assessment': ['assessor', 'photos', 'estimate'],
      beneficiary: ['name', 'share', 'address'],
      'premium quote': ['product', 'price', 'currency'],
      'fraud case': ['score', 'claim', 'reviewer'],
      broker: ['region', 'licence', 'email'],
    },
  },
  airline: {
    systems: ['skydesk', 'gatekeeper'],
    records: {
      'flight booking': ['locator', 'fare', 'passengers'],
      'boarding pass': ['seat', 'gate', 'barcode'],
      'baggage report': ['tag', 'weight_kg', 'station'],
      'crew roster': ['duty_start', 'duty_end', 'base'],
      'flight delay': ['minutes', 'reason', 'weather_code'],
      'loyalty account': ['tier', 'miles', 'member'],
      'seat map': ['aircraft', 'rows', 'version'],
    },
  },
  university: {
    systems: ['campusly', 'registrar'],
    records: {
      enrolment: ['student', 'term', 'status'],
      course: ['title', 'credits', 'language'],
      'exam grade': ['student', 'points', 'comment'],
      'reading list': ['course', 'items', 'week'],
      scholarship: ['amount', 'currency', 'deadline'],
      'dormitory room': ['building', 'floor', 'price'],
      'thesis topic': ['supervisor', 'keywords', 'abstract'],
    },
  },
  hotel: {
    systems: ['lodgio', 'frontdesk'],
    records: {
      reservation: ['guest', 'arrival', 'nights'],
      'room rate': ['room_type', 'price', 'season'],
      'housekeeping job': ['room', 'priority', 'status'],
      'guest review': ['rating', 'text', 'language'],
      'minibar charge': ['item', 'quantity', 'amount'],
      'loyalty member': ['points', 'tier', 'phone'],
      banquet: ['hall', 'people', 'menu'],
    },
  },
  recruiting: {
    systems: ['hirewire', 'talentbox'],
    records: {
      candidate: ['name', 'email', 'cv_file'],
      vacancy: ['title', 'location', 'salary'],
      interview: ['candidate', 'panel', 'date'],
      'offer letter': ['candidate', 'salary', 'start'],
      'reference check': ['referee', 'phone', 'result'],
      'talent pool': ['name', 'tags', 'owner'],
      'assessment score': ['test', 'score', 'percentile'],
    },
  },
  payroll: {
    systems: ['paygrid', 'wagebook'],
    records: {
      payslip: ['employee', 'gross', 'net'],
      'leave request': ['employee', 'from', 'to'],
      timesheet: ['employee', 'week', 'hours'],
      'expense report': ['employee', 'total', 'currency'],
      'tax certificate': ['year', 'employee', 'file'],
      'benefit plan': ['provider', 'cost', 'eligibility'],
      'bank mandate': ['iban', 'holder', 'signed_at'],
    },
  },
  retail: {
    systems: ['shelfware', 'tillpoint'],
    records: {
      'loyalty coupon': ['code', 'discount', 'expires'],
      'gift card': ['balance', 'currency', 'pin'],
      'till session': ['cashier', 'opened_at', 'float'],
      'product review': ['rating', 'text', 'author'],
      'price list': ['currency', 'entries', 'valid_from'],
      supplier: ['name', 'phone', 'terms'],
      'purchase order': ['supplier', 'lines', 'total'],
    },
  },
  energy: {
    systems: ['gridpulse', 'voltnet'],
    records: {
      meter: ['serial', 'address', 'unit'],
      'meter reading': ['meter', 'value', 'read_at'],
      tariff: ['name', 'price', 'band'],
      substation: ['region', 'load', 'capacity'],
      'charging station': ['connector', 'power_kw', 'location'],
      'grid event': ['severity', 'started_at', 'area'],
      'solar forecast': ['site', 'hour', 'kwh'],
    },
  },
  property: {
    systems: ['leasely', 'keystone'],
    records: {
      listing: ['address', 'rent', 'rooms'],
      tenancy: ['tenant', 'start', 'rent'],
      'viewing slot': ['listing', 'agent', 'date'],
      'maintenance order': ['unit', 'trade', 'status'],
      deposit: ['tenancy', 'amount', 'held_by'],
      inspection: ['unit', 'inspector', 'photos'],
      'utility account': ['meter', 'provider', 'balance'],
    },
  },
  legal: {
    systems: ['casefile', 'docketly'],
    records: {
      'court case': ['number', 'court', 'judge'],
      pleading: ['case', 'party', 'file'],
      hearing: ['case', 'room', 'date'],
      'contract clause': ['contract', 'text', 'risk'],
      'billable hour': ['lawyer', 'matter', 'minutes'],
      'evidence item': ['case', 'label', 'custodian'],
      trademark: ['mark', 'class', 'country'],
    },
  },
  farming: {
    systems: ['agrimap', 'fieldnote'],
    records: {
      field: ['hectares', 'soil', 'location'],
      harvest: ['crop', 'tonnes', 'date'],
      'irrigation plan': ['field', 'litres', 'start'],
      animal: ['tag', 'breed', 'weight_kg'],
      'spray record': ['product', 'dose', 'field'],
      'seed order': ['variety', 'quantity', 'price'],
      'soil sample': ['depth', 'ph', 'lab'],
    },
  },
  manufacturing: {
    systems: ['plantfloor', 'assembla_line'],
    records: {
      'work order': ['product', 'quantity', 'due'],
      machine: ['line', 'state', 'temperature'],
      'quality defect': ['part', 'severity', 'image'],
      'bill of materials': ['product', 'version', 'parts'],
      shift: ['line', 'lead', 'start'],
      'tool calibration': ['gauge', 'result', 'due'],
      'downtime record': ['machine', 'minutes', 'cause'],
    },
  },
  museum: {
    systems: ['curatio', 'archiva'],
    records: {
      artwork: ['artist', 'year', 'image'],
      loan: ['borrower', 'from', 'to'],
      exhibition: ['title', 'rooms', 'opening'],
      'condition report': ['artwork', 'photos', 'notes'],
      'audio guide': ['stop', 'language', 'minutes'],
      donor: ['name', 'email', 'pledge'],
      'ticket tier': ['name', 'price', 'quota'],
    },
  },
  sports: {
    systems: ['leaguebase', 'matchday'],
    records: {
      fixture: ['home', 'away', 'venue'],
      'player profile': ['name', 'position', 'team'],
      'season ticket': ['seat', 'holder', 'price'],
      'training plan': ['week', 'sessions', 'coach'],
      'match score': ['fixture', 'home_goals', 'away_goals'],
      transfer: ['player', 'fee', 'currency'],
      referee: ['name', 'grade', 'region'],
    },
  },
  telecom: {
    systems: ['cellfront', 'linkops'],
    records: {
      subscription: ['plan', 'msisdn', 'status'],
      'sim card': ['iccid', 'pin', 'state'],
      'porting request': ['number', 'carrier', 'date'],
      'cell tower': ['azimuth', 'location', 'load'],
      'usage record': ['subscriber', 'megabytes', 'period'],
      'roaming zone': ['countries', 'price', 'cap'],
      'line fault': ['line', 'symptom', 'technician'],
    },
  },
  government: {
    systems: ['civicdesk', 'permitio'],
    records: {
      permit: ['applicant', 'type', 'status'],
      'parking fine': ['plate', 'amount', 'due'],
      'council motion': ['title', 'text', 'votes'],
      'birth certificate': ['number', 'issued_at', 'office'],
      'land parcel': ['number', 'area', 'owner'],
      'polling station': ['district', 'address', 'voters'],
      grant: ['programme', 'amount', 'deadline'],
    },
  },
  crm: {
    systems: ['leadspring', 'dealflow'],
    records: {
      lead: ['company', 'source', 'score'],
      deal: ['stage', 'amount', 'close_date'],
      campaign: ['name', 'audience', 'budget'],
      'sales territory': ['region', 'owner', 'quota'],
      survey: ['questions', 'audience', 'language'],
      'support contract': ['account', 'level', 'expires'],
      partner: ['name', 'tier', 'country'],
    },
  },
};

/** Operations: name, descriptions in the manner of different authors, and arguments besides the fields of the record. */
const OPERATIONS = [
  [
    'list',
    ['Lists {s}, newest first.', 'Returns a page of {s} in {S}.', 'Get all {s} that match the filters.'],
    ['cursor', 'limit', 'status'],
  ],
  ['get', ['Returns one {r}.', 'Retrieves a {r} of {S} by id.', 'Get the details of a {r}.'], ['id']],
  ['create', ['Creates a {r}.', 'Adds a new {r} to {S}.', 'Registers a {r} and returns its id.'], ['fields']],
  [
    'update',
    ['Updates fields of a {r}.', 'Changes an existing {r}; fields left out stay as they are.', 'Edits a {r} in {S}.'],
    ['id', 'fields'],
  ],
  [
    'delete',
    ['Deletes a {r}.', 'Removes a {r} from {S} permanently.', 'Permanently removes one {r}.'],
    ['id', 'reason'],
  ],
  [
    'search',
    ['Searches {s} by text.', 'Finds {s} in {S} with a full-text query.', 'Full-text search over {s}.'],
    ['query', 'limit'],
  ],
  [
    'export',
    [
      'Exports {s} as a CSV file.',
      'Writes {s} to a spreadsheet and returns a download link.',
      'Generates a report of {s}.',
    ],
    ['format', 'from', 'to'],
  ],
  [
    'import',
    ['Imports {s} from an uploaded file.', 'Loads many {s} at once from CSV.', 'Bulk upload of {s}.'],
    ['file', 'dry_run'],
  ],
  [
    'attach_file_to',
    ['Attaches a file to a {r}.', 'Uploads a document or picture to a {r}.', 'Adds an attachment to a {r} in {S}.'],
    ['id', 'file', 'content_type'],
  ],
  [
    'send_reminder_for',
    [
      'Sends a reminder about a {r} by email or text message.',
      'Notifies the contact of a {r}.',
      'Messages the people concerned with a {r}.',
    ],
    ['id', 'channel', 'text'],
  ],
  [
    'approve',
    ['Approves a {r}.', 'Moves a {r} to the status approved.', 'Signs off a {r} that waits for review.'],
    ['id', 'comment'],
  ],
  ['archive', ['Archives a {r}.', 'Closes a {r}, which stays readable.', 'Marks a {r} as done and hides it.'], ['id']],
  [
    'get_history_of',
    [
      'Returns the changes of a {r} over time.',
      'Audit log of one {r}: who changed what and when.',
      'Shows the history of a {r} in {S}.',
    ],
    ['id', 'from', 'to'],
  ],
  [
    'count',
    ['Counts {s} by status.', 'Number of {s} per day over a time range.', 'Returns metrics of {s}.'],
    ['from', 'to', 'group_by'],
  ],
  [
    'share',
    [
      'Shares a {r} with another user of {S}.',
      'Gives a colleague access to a {r}.',
      'Grants read or write permission on a {r}.',
    ],
    ['id', 'email', 'role'],
  ],
  [
    'schedule',
    [
      'Plans a {r} for a date.',
      'Books a time for a {r} in the calendar of {S}.',
      'Schedules work on a {r} and invites those involved.',
    ],
    ['id', 'start', 'end'],
  ],
  [
    'add_note_to',
    ['Adds a note to a {r}.', 'Appends a comment to a {r} in {S}.', 'Writes a text note on a {r}.'],
    ['id', 'text'],
  ],
  [
    'assign',
    ['Assigns a {r} to a person or team.', 'Sets who is responsible for a {r}.', 'Hands a {r} over to another owner.'],
    ['id', 'assignee'],
  ],
  [
    'validate',
    [
      'Checks whether a {r} is valid and complete.',
      'Validates a {r} against the rules of {S}.',
      'Tells if a {r} exists and is consistent.',
    ],
    ['id'],
  ],
  [
    'compare',
    ['Compares two {s}.', 'Shows the differences between two {s} in {S}.', 'Diff of two versions of a {r}.'],
    ['first_id', 'second_id'],
  ],
  [
    'translate',
    ['Translates the texts of a {r}.', 'Returns a {r} in another language.', 'Localised texts of a {r} in {S}.'],
    ['id', 'language'],
  ],
  [
    'print',
    ['Renders a {r} as PDF.', 'Generates a printable image of a {r}.', 'Converts a {r} to a document.'],
    ['id', 'paper'],
  ],
  [
    'recalculate',
    [
      'Recalculates the totals of a {r}.',
      'Computes amounts and taxes of a {r} again.',
      'Evaluates the formulas of a {r}.',
    ],
    ['id', 'date'],
  ],
  [
    'subscribe_to',
    ['Subscribes to changes of {s}.', 'Calls a web address when a {r} changes.', 'Creates a webhook for {s} in {S}.'],
    ['url', 'events'],
  ],
  [
    'restore',
    ['Restores a deleted {r}.', 'Brings a {r} back from the archive of {S}.', 'Undo of a removal of a {r}.'],
    ['id'],
  ],
  [
    'merge',
    ['Merges two {s} into one.', 'Combines duplicate {s}.', 'Joins a {r} with its duplicate in {S}.'],
    ['keep_id', 'drop_id'],
  ],
  ['lock', ['Locks a {r} against changes.', 'Stops further edits of a {r}.', 'Freezes a {r} in {S}.'], ['id', 'until']],
  [
    'locate',
    [
      'Returns the location of a {r} on the map.',
      'Where a {r} is now: address and coordinates.',
      'Finds the route to a {r}.',
    ],
    ['id'],
  ],
  [
    'price',
    [
      'Calculates the price of a {r} in a currency.',
      'Quotes a {r} with discounts and tax.',
      'Returns the current price of a {r}.',
    ],
    ['id', 'currency', 'quantity'],
  ],
  [
    'refund',
    ['Pays back what was charged for a {r}.', 'Cancels a {r} and refunds its fee.', 'Returns money for a {r}.'],
    ['id', 'amount'],
  ],
  [
    'forecast',
    [
      'Forecasts the number of {s} for the next days.',
      'Predicts demand for {s}.',
      'Returns a forecast of {s} by week.',
    ],
    ['horizon_days'],
  ],
  ['duplicate', ['Copies a {r}.', 'Creates a copy of a {r} in {S}.', 'Clones a {r} with a new id.'], ['id', 'name']],
  ['rename', ['Renames a {r}.', 'Changes the title of a {r}.', 'Gives a {r} another name in {S}.'], ['id', 'name']],
  [
    'transcribe_call_about',
    [
      'Text of a recorded call about a {r}.',
      'Returns what was said in calls about a {r}.',
      'Speech notes of a {r} as text.',
    ],
    ['id', 'speaker'],
  ],
  [
    'check_availability_of',
    ['Shows when a {r} is available.', 'Free dates of a {r} in {S}.', 'Returns the open time slots of a {r}.'],
    ['id', 'from', 'to'],
  ],
  ['tag', ['Sets the labels of a {r}.', 'Tags a {r} with keywords.', 'Adds labels to a {r} in {S}.'], ['id', 'tags']],
];

/** A small deterministic generator of numbers below 2^32 (mulberry32). */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

const plural = (noun) => (/(?:s|ch)$/.test(noun) ? noun : noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`);

/** `count` tools in a fixed order that mixes all domains; at most 10,080. */
export function distractors(count) {
  const next = random(20_261_122);
  const tools = [];
  for (const [domain, { systems, records }] of Object.entries(DOMAINS))
    for (const system of systems)
      for (const [record, fields] of Object.entries(records))
        for (const [verb, descriptions, args] of OPERATIONS)
          tools.push({ domain, system, record, fields, verb, descriptions, args });
  for (let last = tools.length - 1; last > 0; last -= 1) {
    const other = next() % (last + 1);
    [tools[last], tools[other]] = [tools[other], tools[last]];
  }
  return tools.slice(0, count).map(({ domain, system, record, fields, verb, descriptions, args }) => {
    const noun = record.replaceAll(' ', '_');
    const title = system[0].toUpperCase() + system.slice(1);
    const description = descriptions[next() % descriptions.length]
      .replaceAll('{s}', plural(record))
      .replaceAll('{r}', record)
      .replaceAll('{S}', title);
    const parameters = Object.fromEntries(
      args
        .flatMap((arg) => (arg === 'fields' ? fields : [arg]))
        .map((arg) => [arg, `${arg.replaceAll('_', ' ')} of the ${record}`]),
    );
    return {
      name: `${system}_${verb}_${noun}`.slice(0, 64),
      category: domain,
      tags: [system],
      description,
      parameters,
    };
  });
}
