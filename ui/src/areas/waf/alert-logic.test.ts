import { expect, test } from 'vitest'
import type { WafAlert } from '../../api/types'
import {
  addressOf,
  addsUp,
  alertQuery,
  isFiltered,
  leadOf,
  looksAtRequests,
  maskedParts,
  requestsOf,
} from './alert-logic'

const record = (id: string, more: Partial<WafAlert>): WafAlert => ({
  id,
  created_at: '2026-11-16T12:00:00Z',
  request_id: 'r1',
  domain_id: 'd1',
  domain: 'shop.example.net',
  rule_id: 942100,
  severity: 'critical',
  action: 'blocked',
  message: 'SQL Injection Attack',
  method: 'GET',
  uri: '/search?q=1',
  client_ip: '192.0.2.7',
  score: 10,
  paranoia: 1,
  tags: [],
  data: [],
  partial: false,
  deciding: false,
  ...more,
})

test('only the filters in the URL are sent to the gateway', () => {
  expect(alertQuery({ rule_id: '942100', client: '192.0.2.0/24', sort: 'at', q: '' })).toEqual({
    rule_id: '942100',
    client: '192.0.2.0/24',
  })
  expect(alertQuery({ since: '2026-11-16T12:00' })).toEqual({ since: new Date('2026-11-16T12:00').toISOString() })
  expect(alertQuery({ since: 'yesterday' })).toEqual({})
  expect(isFiltered({ before: 'x' })).toBe(false)
  expect(isFiltered({ action: 'blocked' })).toBe(true)
})

test('records of one request are one row, led by the most severe rule that found something', () => {
  const rows = requestsOf([
    record('5', { rule_id: 949110, message: 'Inbound Anomaly Score Exceeded', deciding: true }),
    record('4', { rule_id: 920350, severity: 'warning' }),
    record('9', { request_id: 'r2', rule_id: 941100 }),
    record('3', {}),
  ])
  expect(rows.map(({ id, records }) => [id, records.length])).toEqual([
    ['3', 3],
    ['9', 1],
  ])
})

test('a block without a rule of the rule set is led by the deciding record', () => {
  expect(leadOf([record('1', { rule_id: 200002, deciding: true })]).rule_id).toBe(200002)
})

test('records without a reference number stay apart', () => {
  const lost = { request_id: '', rule_id: 0, action: 'unavailable' } as const
  expect(requestsOf([record('1', lost), record('2', lost)])).toHaveLength(2)
})

test('rules that add up or protect the engine cannot be excluded', () => {
  expect([942100, 911100, 100, 99_999].every(looksAtRequests)).toBe(true)
  expect([0, 949110, 980170, 901100, 200002].some(looksAtRequests)).toBe(false)
})

test('rules that add up are distinguished from those that find', () => {
  expect([949110, 959100, 980170].every(addsUp)).toBe(true)
  expect([942100, 200002, 100].some(addsUp)).toBe(false)
})

test('the host appears once in a URL, even if the client sends it there', () => {
  expect(addressOf({ domain: 'a.example', uri: '/x?y' })).toBe('a.example/x?y')
  expect(addressOf({ domain: 'a.example', uri: 'https://a.example/x' })).toBe('a.example/x')
  expect(addressOf({ domain: 'a.example', uri: '' })).toBe('a.example')
})

test('secrets are separated from the rest', () => {
  expect(maskedParts('a=[masked]&b=1').map(({ text, masked }) => [text, masked])).toEqual([
    ['a=', false],
    ['[masked]', true],
    ['&b=1', false],
  ])
})
