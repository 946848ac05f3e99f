// An MCP server on stdio for tickets of a service elsewhere, which takes 400 ms for each
// call. Its settings name the service's host (TICKETS_URL), and it never connects to it:
// the tickets are made up from their ids.
import { setTimeout as sleep } from 'node:timers/promises'
import { serve, text } from '../scripts/serve.mjs'

const latency = 400 // milliseconds
const string = { type: 'string' }
const tool = (name, description, properties, annotations) =>
	({ name, description, inputSchema: { type: 'object', properties, required: Object.keys(properties) }, annotations })
const list = [
	tool('list_tickets', 'The tickets of a sprint.', { sprint: string }, { readOnlyHint: true }),
	tool('get_ticket', 'One ticket.', { id: string }, { readOnlyHint: true }),
	tool('list_comments', 'The comments on a ticket.', { id: string }, { readOnlyHint: true }),
	tool('close_ticket', 'Closes a ticket.', { id: string }, { destructiveHint: true }),
]
const calls = {
	list_tickets: ({ sprint }) => ({ tickets: [1, 2, 3].map((n) => ({ id: `${sprint}-${n}`, title: `Ticket ${n} of ${sprint}` })) }),
	get_ticket: ({ id }) => ({ id, title: `Ticket ${id}`, state: 'open', text: 'The page is slow.' }),
	list_comments: ({ id }) => ({ ticket: id, comments: [{ by: 'ada', text: `About ${id}: it is.` }] }),
	close_ticket: ({ id }) => ({ id, state: 'closed' }),
}

serve('tickets', {
	'tools/list': () => ({ tools: list }),
	'tools/call': async (p) => {
		await sleep(latency)
		return text(JSON.stringify(calls[p.name](p.arguments)))
	},
})
